"""What the gate said of proposals, kept by what they say (``corpus/proposals/outcomes.json``).

``fxmorph propose --record FILE`` writes the file.  An outcome holds for the prover that it was made
with; a proposal that changed since has another hash and is not in it any more.  Of a duplicate it
holds as long as what it is the same as does, which nothing checks: record anew after removing rules.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from fxmorph.propose.proposal import Judged
from fxmorph.records import from_json, to_json

#: The file, beside the packs that it is about.
OUTCOMES = "outcomes.json"
#: Raise it whenever the gate may decide otherwise.
GATE_VERSION = 1


def made_with() -> dict[str, str]:
    """What an outcome depends on besides the proposal."""
    from fxmorph.prove.certificates import PROVER_VERSION

    return {"gate": str(GATE_VERSION), "prover": str(PROVER_VERSION), "torch": metadata.version("torch")}


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

    def names(self, stem: str) -> bool:
        return any(fnmatch.fnmatchcase(stem, glob) for glob in self.seeds)


def read_outcomes(path: Path, any_torch: bool = False) -> dict[str, Judged]:
    """Outcomes by the hash of their proposal; none where the file is missing or was made with another gate.

    ``any_torch``: those of another release of torch too.
    """
    try:
        body = json.loads(path.read_text())
        versions, wanted = body["made with"], made_with()
        if any(versions[k] != v for k, v in wanted.items() if not (any_torch and k == "torch")):
            return {}
        return {row["hash"]: replace(from_json(Judged, row), cached=True) for row in body["outcomes"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_outcomes(path: Path, judged: Iterable[Judged]) -> None:
    """Write the file, one outcome a line, by task and name; raises ``OSError``."""
    rows = sorted(judged, key=lambda j: (j.task, j.source.split(":")[0], j.name, j.hash))
    lines = ",\n".join(json.dumps(to_json(replace(j, cached=False)), separators=(",", ":")) for j in rows)
    path.write_text(f'{{"made with":{json.dumps(made_with())},"outcomes":[\n{lines}\n]}}\n')
