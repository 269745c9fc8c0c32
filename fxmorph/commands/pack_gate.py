"""Proposals of packs through the gate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.records import from_json, to_json
from fxmorph.core.store import DiskError, Store
from fxmorph.core.units import matches
from fxmorph.events import Event, Warned
from fxmorph.propose.admitted import pack_lines
from fxmorph.propose.gate.decision import told
from fxmorph.propose.gate.gatekeeper import Gate
from fxmorph.propose.gate.outcomes import OUTCOMES, made_with, read_outcomes, shipped_packs, write_outcomes
from fxmorph.propose.proposal import Judged, Line, Task, read_task

#: The file is written again after so many outcomes, so that a kill loses little.
WRITTEN_EVERY = 20


def judge_packs(
    settings: Settings,
    packs: Sequence[Path],
    tasks: Sequence[Task],
    target: str,
    fresh: bool,
    record: Path | None,
    emit: Callable[[Event], None],
) -> int:
    """Every proposal of the packs (the shipped ones where none are named), told as it is decided.

    ``target`` is a glob over ``aims``.  Outcomes that are known for this gate are taken, unless
    ``fresh``: those shipped beside the packs, and those in the state folder.  Returns the exit code.
    """
    folders = list(packs) or [shipped_packs()]
    lines = [line for line in pack_lines(folders) if _wanted(line, tasks, target)]
    if not lines:
        emit(Warned(f"no proposal of {_kind(tasks, target)} in {', '.join(map(str, folders))}"))
        return Exit.NOTHING_RAN
    if packs:
        _warn_of_aims(lines, emit)
    given = {(line.source, line.hash): line for line in lines}
    ends = time.monotonic() + settings.max_time
    versions = json.dumps(made_with(), sort_keys=True)
    with Store(settings.state_dir) as store:
        done: dict[str, Judged] = {}
        if not fresh:
            for folder in folders:
                done |= read_outcomes((folder if folder.is_dir() else folder.parent) / OUTCOMES)
            known = store.proposals(versions).items()
            done |= {h: replace(from_json(Judged, row), cached=True) for h, row in known}
        judged: list[Judged] = []
        beside = [f.parent for f in folders if (f.parent / "seeds").is_dir()]
        corpus = beside[0] if beside else None
        with Gate(settings.effective_jobs, settings.transforms, settings.state_dir, done, corpus=corpus) as gate:
            for one in gate.judge_all(lines, lambda: time.monotonic() < ends):
                judged.append(one)
                line = given[one.source, one.hash]
                emit(told(one, line))
                if not one.cached and line.proposal is not None:
                    store.add_proposal(one.hash, versions, line.text, to_json(one))
                if record is not None and len(judged) % WRITTEN_EVERY == 0:
                    _record(record, judged)
    if record is not None:
        _record(record, judged)
        emit(Warned(f"outcomes written to {record}"))
    if len(judged) < len(lines):
        left = len(lines) - len(judged)
        emit(Warned(f"{left} proposals were not reached within the budget; what was decided is kept, run it again"))
    return Exit.OK


def _warn_of_aims(lines: Sequence[Line], emit: Callable[[Event], None]) -> None:
    """A unit of another release of torch, or a slip: it decides nothing, and is said."""
    # Late, since it loads all of Inductor's units.
    from fxmorph.propose.model.context import aimable

    aims = {line.proposal.aims for line in lines if line.proposal is not None}
    for lost in sorted(aim for aim in aims if not aimable(aim)):
        emit(Warned(f"aims {lost}: no bug class and no unit of this torch"))


def _record(file: Path, judged: Sequence[Judged]) -> None:
    try:
        write_outcomes(file, judged)
    except OSError as error:
        raise DiskError(f"--record {file}: {error.strerror}") from None


def _kind(tasks: Sequence[Task], target: str) -> str:
    """Which proposals are wanted, in words."""
    return f"task {' or '.join(tasks) or 'any'}" + (f" aimed at {target}" if target else "")


def _wanted(line: Line, tasks: Sequence[Task], target: str) -> bool:
    """Malformed lines belong to every task that they may be of, and to no target."""
    if line.proposal is None:
        return not target and (not tasks or read_task(line) in tasks)
    fits = not tasks or line.proposal.task in tasks
    return fits and (not target or matches(line.proposal.aims, target))
