"""The schedule of ``fxmorph reduce``: what a stored run left is investigated, and nothing is judged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fxmorph.campaign.finding_queue import FindingQueue, Found
from fxmorph.campaign.ledger import Emit
from fxmorph.campaign.schedule import rung_of
from fxmorph.core.config import Settings
from fxmorph.core.operator_seeds import FORM as OPERATOR
from fxmorph.core.pool import Ended
from fxmorph.core.seeds import find_seeds
from fxmorph.core.store import Store
from fxmorph.events import Warned
from fxmorph.model import Case, Finding, Rung, Seed, Status


@dataclass(frozen=True)
class Leftovers:
    """What is asked for of one stored run.

    ``waiting`` are cases to be investigated; those of them with a finding in ``again`` (by case) are reduced further.
    ``of_units`` are findings of the pass rung, ``asked`` ids of the cases that the findings asked for are of, and
    ``undrafted`` findings that stand and have no draft of a report, each with its case.
    """

    waiting: tuple[Found, ...]
    again: dict[str, Finding]
    of_units: tuple[Finding, ...]
    asked: frozenset[str]
    undrafted: tuple[tuple[int, Case, Finding], ...]


def leftovers(store: Store, run_id: str, ids: Collection[str] | None) -> Leftovers:
    """Of the run the findings with these ids; where None is given, all that it left for later."""
    stored = store.findings(run_id)
    confirmed = [f for f in stored if f.confirmed]
    asked = [f for f in confirmed if (f.reduced.finished is False if ids is None else f.id in ids)]
    seen = {f.case_id for f in stored if not f.confirmed and (ids is None or f.id in ids)}
    again = {f.case_id: f for f in asked if not _of_a_unit(f)}
    concluded = {f.case_id for f in store.findings(run_id, duplicates=True) if f.confirmed}
    waiting = tuple(
        Found(index, case, result)
        for index, case, result in store.cases(run_id)
        if case.id in again
        or case.id in seen
        or (ids is None and result.status is Status.FINDING and case.id not in concluded)
    )
    of_units = tuple(filter(_of_a_unit, asked))
    bare = {f.case_id: f for f in confirmed if ids is None and f.program and f.draft is None and f not in asked}
    undrafted = tuple(
        (index, case, bare[case.id])
        for index, case, _ in store.cases(run_id)
        if case.id in bare and _is_there(case.seed)
    )
    return Leftovers(waiting, again, of_units, frozenset(f.case_id for f in asked) | seen, undrafted)


def unchanged(waiting: Sequence[Found], emit: Emit) -> list[Found]:
    """Cases whose seeds are as they were judged; others are told."""
    same = []
    for found in waiting:
        place = place_of(found.case.seed)
        seeds, _ = find_seeds([place]) if _is_there(found.case.seed) else ([], [])
        if found.case.seed.hash in {s.hash for s in seeds}:
            same.append(found)
        else:
            emit(Warned(f"{place} is another than in the run, or gone: its case is left out"))
    return same


class LeftoverSchedule:
    """No job of its own: its cases wait in the queue, which is all that the run works on."""

    until = 0.0
    late_jobs: Iterator[Any] = iter(())
    judged = unjudged = 0

    def __init__(
        self, settings: Settings, seeds: Sequence[Seed], cases: Sequence[Found],
        undrafted: Sequence[tuple[int, Case, Finding]], queue: FindingQueue,
    ) -> None:  # fmt: skip
        self.rung: Rung = rung_of(settings)
        self.rungs: dict[str, int] = {self.rung.value: 0}
        self.planned = len(seeds) if not settings.rewrites else None
        for found in cases:
            queue.add(found)
        for index, case, finding in undrafted:
            queue.write_up(index, case, finding)

    def jobs(self) -> Iterator[Any]:
        return iter(())

    def limit(self, job: Any) -> float:
        raise AssertionError("no job is of this schedule")

    def recalled(self, job: Any) -> bool:
        return False

    def hear(self, ended: Ended) -> None:
        raise AssertionError("no job is of this schedule")

    def end(self) -> None:
        """Nothing: what remains waits in the queue, which says so."""

    def coverage(self) -> dict[str, Any]:
        return {}


def place_of(seed: Seed) -> str:
    """How the seed is named on the command line."""
    if seed.form == OPERATOR:
        return seed.label
    return f"{seed.path}:{seed.name}" if seed.name else seed.path


def _is_there(seed: Seed) -> bool:
    return seed.form == OPERATOR or Path(seed.path).is_file()


def _of_a_unit(finding: Finding) -> bool:
    """Whether the finding is one of the pass rung: what a unit does alone."""
    return finding.unit_case is not None and finding.unit_case.rung == Rung.PASS and not finding.program
