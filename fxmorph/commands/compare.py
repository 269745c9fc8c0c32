"""``fxmorph compare``: what changed from one run to another."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.last_run import campaign_of
from fxmorph.core.united import United, united
from fxmorph.events import Change, ProgramCompared, RunsCompared
from fxmorph.report.comparison import Compared, Ran, Side, by_cause
from fxmorph.report.comparison import compare as compare_runs

#: What is listed by cause, in this order; of the rest there are numbers alone.
_LISTED = (Change.NEW, Change.FIXED, Change.STILL_FAILING)


def compare(settings: Settings, before: str, after: str) -> Exit:
    """Print what changed between two runs, each a state folder or the start of an id; 1 where something is new.

    Raises ``StoreError`` for a folder without state and :class:`ConfigError` for a run that is not there.
    """
    folders = [Path(name) if Path(name).is_dir() else settings.state_dir for name in (before, after)]
    with united(list(dict.fromkeys(folders))) as runs:
        one, other = (_named(runs, folder, name) for folder, name in zip(folders, (before, after), strict=True))
    if one.seed != other.seed:
        print(f"fxmorph: campaign seeds {one.seed} and {other.seed}: few programs are the same", file=sys.stderr)
    compared = list(compare_runs(one, other))
    counts = Counter(row.change for row in compared)
    if not one.cases.keys() & other.cases.keys() and not counts[Change.STILL_FAILING]:
        print("fxmorph: the runs have no program in common: nothing is compared", file=sys.stderr)
        return Exit.NOTHING_RAN
    (_tell_lines if settings.json else _tell_table)(one, other, compared, counts)
    return Exit.FINDINGS if counts[Change.NEW] else Exit.OK


def _named(runs: United, folder: Path, name: str) -> Ran:
    """The run with this id, or the last one of the folder, with the other shards of its campaign."""
    here = [(store, run) for store, run in runs.runs if store.path == folder]
    found = here[-1:] if Path(name).is_dir() else [(store, run) for store, run in here if run.id.startswith(name)]
    if len(found) != 1:
        raise ConfigError(f"{name}: {'several runs' if found else 'no run'} of that id in {folder}, and no such folder")
    ids = {run.id for run in campaign_of(found[0][1], [run for _, run in here])}
    return Ran.of(runs, [(store, run) for store, run in here if run.id in ids])


def _tell_lines(before: Ran, after: Ran, compared: list[Compared], counts: Counter[Change]) -> None:
    for row in compared:
        if row.change is not Change.SAME:
            line = ProgramCompared(
                row.change, row.seed, row.recipe, row.unit,
                row.before.verdict or "", row.before.kinds, row.before.finding,
                row.after.verdict or "", row.after.kinds, row.after.finding,
            )  # fmt: skip
            print_line(json.dumps(line.to_json(), ensure_ascii=False))
    end = RunsCompared(before.torch, after.torch, {change.value: counts[change] for change in Change})
    print_line(json.dumps(end.to_json()))


def _tell_table(before: Ran, after: Ran, compared: list[Compared], counts: Counter[Change]) -> None:
    print_line(f"from torch {before.torch} to torch {after.torch}")
    rows = [
        (
            row.change, str(programs), _said(row.before), _said(row.after), row.unit, row.seed,
            row.recipe or "(as it is)",
        )
        for change in _LISTED
        for row, programs in by_cause(compared, change)
    ]  # fmt: skip
    # What one of them shows and the other did not judge is neither fixed nor new.
    open_ends = [row for row in compared if row.change is Change.NOT_JUDGED and (row.before.fails or row.after.fails)]
    rows += [
        (row.change, str(n), _said(row.before), _said(row.after), row.unit, row.seed, row.recipe or "(as it is)")
        for row, n in by_cause(open_ends, Change.NOT_JUDGED)
    ]
    if rows:
        heads = ("change", "programs", f"torch {before.torch}", f"torch {after.torch}", "unit", "seed", "recipe")
        print_columns(heads, rows)
    print_line("programs: " + ", ".join(f"{counts[change]} {change}" for change in Change))


def _said(side: Side) -> str:
    """``value (1af905cebb7e)``, or the verdict where nothing is accused."""
    if side.verdict is None:
        return "not judged"
    if not side.fails:
        return side.verdict.value
    return ",".join(side.kinds) + (f" ({side.finding})" if side.finding else "")
