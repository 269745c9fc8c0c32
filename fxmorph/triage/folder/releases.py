"""What the repro of a finding shows under other releases of torch, each by an interpreter that has it.

``fxmorph bisect ID`` tries those that it takes to tell where that changes, ``fxmorph reduce ID --python`` all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.lifetime import next_to_try, release_key
from fxmorph.core.records import to_json
from fxmorph.core.scripts import Scripts
from fxmorph.core.store import DiskError, Store
from fxmorph.core.torch_environment import placed, release_of
from fxmorph.model import Finding
from fxmorph.triage.folder.issue import issue_text
from fxmorph.triage.folder.repro_run import run_repro, said_by

#: Says what the repro in a folder shows by the interpreter of so many.
Try = Callable[[Path, int], str]


@dataclass(frozen=True)
class Release:
    """A release of torch, and a Python that has it."""

    name: str
    python: str


def try_releases(
    settings: Settings, ids: Sequence[str], pythons: Sequence[str], versions: dict[str, str], say: Callable[[str], None]
) -> int:
    """Run the repros of these findings (without ids: of all) by each interpreter; write what they show.

    It goes into ``finding.json`` (``extra.releases``: release and word) and as a table into ``issue.md``; earlier rows
    of other releases stay.  ``versions`` is what ``issue.md`` names beside the torch that the finding was made with.
    Returns how many findings were tried.  Raises :class:`ConfigError` for an interpreter without torch.
    """
    releases = releases_of(pythons)
    tried = 0
    with Store(settings.state_dir) as store, _tries(releases, say) as shows:
        wanted = {store.finding(prefix)[0].id for prefix in ids}
        for run in store.runs():
            for finding in store.findings(run.id):
                folder = Path(store.place(finding.id)[0])
                if (wanted and finding.id not in wanted) or not finding.program or not folder.is_dir():
                    continue
                rows = {release.name: shows(folder, number) for number, release in enumerate(releases)}
                keep_releases(store, run.id, finding, folder, rows, versions)
                tried += 1
    return tried


def bisect_releases(
    settings: Settings, prefix: str, pythons: Sequence[str], versions: dict[str, str], say: Callable[[str], None],
    every: bool = False,
) -> tuple[Finding, list[tuple[str, str | None]]]:  # fmt: skip
    """Run the finding's repro by as few of the interpreters as tell where what it shows changes, or by ``every`` one;
    store what they show.

    Returns the finding with that, and what each release shows, oldest first, None where it was not tried.  Raises
    ``StoreError`` for a finding that is not there, :class:`ConfigError` for one without a repro and for an interpreter
    without torch.
    """
    with Store(settings.state_dir) as store:
        id = store.finding(prefix)[0].id
        found = [(run, f) for run in store.runs() for f in store.findings(run.id) if f.id == id]
        run, finding = found[-1]
        folder = Path(store.place(id)[0])
        if not (folder / "repro.py").is_file():
            raise ConfigError(f"{id}: no repro.py: `fxmorph explain {finding.case_id}` judges the case again")
        releases = releases_of(pythons)
        known: list[str | None] = [None] * len(releases)
        with _tries(releases, say) as shows:
            while (place := _untried(known) if every else next_to_try(known)) is not None:
                known[place] = shows(folder, place)
        rows = [(release.name, word) for release, word in zip(releases, known, strict=True)]
        told = {name: word for name, word in rows if word is not None}
        return keep_releases(store, run.id, finding, folder, told, versions), rows


def _untried(known: Sequence[str | None]) -> int | None:
    return known.index(None) if None in known else None


@contextmanager
def _tries(releases: Sequence[Release], say: Callable[[str], None]) -> Iterator[Try]:
    """What runs a repro by one of the releases and says what it shows."""
    with TemporaryDirectory(prefix="fxmorph-releases-") as cache:

        def shows(folder: Path, number: int) -> str:
            # What one release compiled is nothing for another.
            code, _ = run_repro(folder, Path(cache, str(number)), scripts=Scripts(releases[number].python))
            say(f"{folder.name} torch {releases[number].name}: {said_by(code)}")
            return said_by(code)

        yield shows


def keep_releases(
    store: Store, run_id: str, finding: Finding, folder: Path, rows: dict[str, str], versions: dict[str, str]
) -> Finding:
    """The finding with what these releases show too, as it is written and stored.

    ``versions``: as for :func:`try_releases`.  Raises :class:`DiskError`.
    """
    made = replace(finding, releases=tuple({**dict(finding.releases or ()), **rows}.items()))
    write_releases(folder, made, {**versions, "torch": str(store.header(run_id).get("torch", versions["torch"]))})
    store.add_finding(run_id, made, str(folder))
    return made


def releases_of(pythons: Sequence[str]) -> list[Release]:
    """Each with the torch that it imports, oldest first; raises :class:`ConfigError` where one has none."""
    places = list(map(placed, pythons))  # repros run in a folder of their own
    return sorted((Release(release_of(place), place) for place in places), key=lambda r: release_key(r.name))


def write_releases(folder: Path, finding: Finding, versions: dict[str, str]) -> None:
    """The files that say what releases show, anew; raises :class:`DiskError`."""
    files = {
        "issue.md": issue_text(finding, versions, finding.ladder),
        "finding.json": json.dumps(to_json(finding), indent=1, ensure_ascii=False) + "\n",
    }
    try:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{folder}: cannot write the finding ({error.strerror})") from None
