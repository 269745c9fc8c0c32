"""What the gate said of proposals, kept by what they say (``corpus/proposals/outcomes.json``).

``fxmorph propose --record FILE`` writes the file.  An outcome holds for the prover that it was made
with; a proposal that changed since has another hash and is not in it any more.  Of a duplicate it
holds as long as what it is the same as does, which nothing checks: record anew after removing rules.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from fxmorph.core.records import from_json, to_json
from fxmorph.core.versions import version_of
from fxmorph.model import Seed
from fxmorph.propose.proposal import Judged

#: The file, beside the packs that it is about.
OUTCOMES = "outcomes.json"
#: Raise it whenever the gate may decide otherwise.
GATE_VERSION = 3
#: How many seeds each recipe is tried on.
CHAINED_SEEDS = 2


def made_with() -> dict[str, str]:
    """What an outcome depends on besides the proposal."""
    from fxmorph.prove.certificates import PROVER_VERSION

    return {"gate": str(GATE_VERSION), "prover": str(PROVER_VERSION), "torch": version_of("torch")}


def shipped_packs() -> Path:
    """The folder of packs that is installed with fxmorph."""
    import fxmorph.corpus as shipped

    return Path(next(iter(shipped.__path__))) / "proposals"


def pack_folders(paths: Iterable[str]) -> list[Path]:
    """The folders of packs of the corpora among ``paths``; the shipped one where there is none."""
    found = [Path(p) / "proposals" for p in paths if (Path(p) / "proposals").is_dir()]
    return found or [shipped_packs()]


@dataclass(frozen=True)
class Chain:
    """An admitted recipe: steps, on the seeds whose file stems the globs name."""

    name: str
    seeds: tuple[str, ...]
    steps: tuple[str, ...]

    def among(self, seeds: Iterable[Seed]) -> list[Seed]:
        """The first few of the seeds that it is for."""
        named = (s for s in seeds if any(fnmatch.fnmatchcase(Path(s.path).stem, glob) for glob in self.seeds))
        return list(itertools.islice(named, CHAINED_SEEDS))


def read_outcomes(path: Path, any_torch: bool = False) -> dict[str, Judged]:
    """Outcomes by the hash of their proposal; none where the file is missing or was made with another gate.

    ``any_torch``: those of another release of torch too.
    """
    try:
        body = json.loads(path.read_text())
        versions, wanted = body["made with"], made_with()
        if any(versions[k] != v for k, v in wanted.items() if not (any_torch and k == "torch")):
            return {}
        units = body["units"]
        rows = [{**row, "fires": [units[i] for i in row["fires"]]} for row in body["outcomes"]]
        return {row["hash"]: replace(from_json(Judged, row), cached=True) for row in rows}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def write_outcomes(path: Path, judged: Iterable[Judged]) -> None:
    """Write the file, one outcome a line, by task and name, units by number; raises ``OSError``."""
    rows = sorted(judged, key=lambda j: (j.task, j.source.split(":")[0], j.name, j.hash))
    number = {unit: i for i, unit in enumerate(sorted({unit for row in rows for unit in row.fires}))}
    made = ({**to_json(replace(j, cached=False)), "fires": [number[unit] for unit in j.fires]} for j in rows)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in made)
    head = f'"made with":{json.dumps(made_with())},"units":{json.dumps([*number], separators=(",", ":"))}'
    path.write_text(f'{{{head},"outcomes":[\n{lines}\n]}}\n')
