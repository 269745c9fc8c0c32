"""``fxmorph merge``: the runs of several state folders in one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError
from fxmorph.core.exits import Exit
from fxmorph.core.store import DATABASE, DiskError, Store
from fxmorph.core.united import Placed, United, united


def merge(states: Sequence[str], into: str) -> Exit:
    """Take the runs of ``states`` into the folder ``into``, with its own.

    A run that is there already is taken again where it got further since.  Raises ``StoreError`` for a folder without
    state, before anything is written, and :class:`ConfigError` where ``into`` holds something else.
    """
    place = Path(into)
    if place.is_dir() and any(place.iterdir()) and not (place / DATABASE).is_file():
        raise ConfigError(f"--into {into}: the folder holds something else than fxmorph state")
    others = [Path(state) for state in states if Path(state).resolve() != place.resolve()]
    with united(others) as theirs, Store(place) as store:
        try:
            taken = _take(store, theirs)
            whole = _settle(store)
        except OSError as error:
            raise DiskError(f"{place}: {error.strerror or error}; merge again once that is mended") from None
        cases = sum(store.progress(run.id)[1] for _, run in whole.runs)
        rows = [row for _, run in whole.runs for row in whole.findings(run.id)]
    found = len({row.finding.id for row in rows if not row.duplicate_of})
    print_line(f"{len(whole.runs)} runs, {cases} cases, {found} findings in {into}; {taken} of the runs are new here")
    return Exit.OK


def _take(store: Store, theirs: United) -> int:
    """Take the runs that the store has not, or not so far; returns how many."""
    have = {run.id for run in store.runs()}
    taken = 0
    for other, run in theirs.runs:
        if run.id in have and other.progress(run.id) <= store.progress(run.id):
            continue
        for placed in theirs.findings(run.id):
            if placed.folder.is_dir() and not placed.duplicate_of:
                # Before the run itself: what was cut off in between is done again.
                target = _target(store, placed)
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(placed.folder, target)
        store.adopt(other, run.id)
        taken += 1
    return taken


def _settle(store: Store) -> United:
    """Write what the runs say of each other's findings, and where files lie now; folders of no finding go."""
    whole = United([store])
    kept = set()
    for _, run in whole.runs:
        before = store.placed(run.id)
        for (finding, folder, duplicate_of), placed in zip(before, list(whole.findings(run.id)), strict=True):
            target = _target(store, placed)
            here = target if target.is_dir() and not placed.duplicate_of else None
            kept |= {here} if here else set()
            if (finding, folder, duplicate_of) == (placed.finding, str(here or ""), placed.duplicate_of):
                continue
            if here is not None and finding != placed.finding and placed.finding.program:
                from fxmorph.core.versions import versions
                from fxmorph.triage.folder.releases import write_releases

                ran = str(run.header.get("torch", ""))
                write_releases(here, placed.finding, {**versions(), **({"torch": ran} if ran else {})})
            store.add_finding(run.id, placed.finding, str(here or ""), placed.duplicate_of)
    for folder in ("findings", "seen"):
        for left in set((store.path / folder).glob("*")) - kept:
            shutil.rmtree(left, ignore_errors=True)
    return United([store])


def _target(store: Store, placed: Placed) -> Path:
    return store.path / ("findings" if placed.finding.confirmed else "seen") / placed.finding.id
