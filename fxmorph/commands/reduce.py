"""``fxmorph reduce``: what runs left for later, with more time than a run gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from fxmorph.campaign import worker
from fxmorph.campaign.run import FINDINGS, INTERRUPTED, NOTHING_RAN, OK, Campaign, Emit, _Found
from fxmorph.core.config import Settings
from fxmorph.core.pool import Ended
from fxmorph.core.seeds import find_seeds
from fxmorph.core.store import PAGE, Store
from fxmorph.events import Warned
from fxmorph.model import Finding, Rung, Seed, Status
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.folder.confirm import TIMES


@dataclass
class Reductions(Campaign):
    """Investigates found cases of one stored run; no case is judged anew.

    ``again`` are findings that are reduced further, by case; they keep their ids.
    """

    investigate_seconds: ClassVar[float] = 300.0
    confirmations: ClassVar[int] = TIMES
    cases_until: ClassVar[float] = 0.0
    interrupted: ClassVar[str] = "interrupted; what was reduced is stored, `fxmorph reduce` goes on"

    again: dict[str, Finding] = field(default_factory=dict)
    reduced: int = 0

    def _wants_investigation(self, cases_left: bool) -> bool:
        return bool(self.found)

    def _order(self) -> Iterator[Any]:
        return iter(())

    def _announce(self) -> None:
        """Nothing: the run was announced when it was made."""

    def _finding(self, job: worker.Investigate, got: Investigated) -> Finding:
        finding = super()._finding(job, got)
        old = self.again.get(job.case.id)
        if old is None:
            return finding
        self.findings.pop(old.fingerprint, None)
        return replace(finding, id=old.id, fingerprint=old.fingerprint, known=old.known)

    def _next_manner(self, job: worker.Investigate, ended: Ended) -> worker.Manner | None:
        """A finding that is there already says more than its case does as found."""
        manner = super()._next_manner(job, ended)
        return None if manner is worker.Manner.AS_FOUND and job.case.id in self.again else manner

    def _confirmed(self, job: worker.Confirm, ended: Any) -> None:
        before = len(self.findings)
        super()._confirmed(job, ended)
        self.reduced += len(self.findings) > before

    def _not_confirmed(self, job: worker.Confirm, said: str) -> None:
        super()._not_confirmed(job, said)
        old = self.again.get(job.case.id)
        if old is not None:  # as it was
            self.findings[old.fingerprint] = old

    def _tell_unreached(self) -> None:
        """Nothing: no seed is judged."""

    def _finish(self, code: int) -> int:
        self._account()
        return INTERRUPTED if code == INTERRUPTED else OK


def reduce_findings(settings: Settings, ids: Sequence[str], emit: Emit) -> int:
    """Reduce the findings with these ids further; without ids, all that runs left over.  Writes ``report.html`` anew.

    Returns 1 where something was done and a new finding stands of what was asked for, confirmed or as it was seen, 0
    where what stands is known, 5 where nothing was done, 130 where it was interrupted.  Raises
    :class:`~fxmorph.core.store.StoreError` for an id that is not stored.
    """
    cases: set[str] = set()
    code = _reduce_stored(settings, ids, emit, cases)
    if code != OK:
        return code
    from fxmorph.report.html import write_report

    write_report([settings.state_dir], settings.state_dir / PAGE)
    with Store(settings.state_dir, write=False) as store:
        stands = any(f.case_id in cases and not f.known for f in store.findings())
    return FINDINGS if stands else OK


def _reduce_stored(settings: Settings, ids: Sequence[str], emit: Emit, cases: set[str]) -> int:
    """The same without a verdict; ``cases`` is given the ids of those that were asked for."""
    done = 0
    with Store(settings.state_dir) as store:
        wanted = {store.finding(prefix)[0].id for prefix in ids}
        for run in store.runs():
            run_id, made = run.id, run.settings
            stored = store.findings(run_id)
            asked = [
                f for f in stored if f.confirmed and (f.id in wanted or (not ids and f.reduced.finished is False))
            ]
            seen = {f.case_id for f in stored if not f.confirmed and (f.id in wanted or not ids)}
            done += sum(_alone(store, run_id, f, emit) for f in asked if _of_a_unit(f))
            cases |= {f.case_id for f in asked} | seen
            again = {f.case_id: f for f in asked if not _of_a_unit(f)}
            concluded = {f.case_id for f in store.findings(run_id, duplicates=True) if f.confirmed}
            waiting = [
                _Found(index, case, result)
                for index, case, result in store.cases(run_id)
                if case.id in again
                or case.id in seen
                or (not ids and result.status is Status.FINDING and case.id not in concluded)
            ]
            waiting = list(_unchanged(waiting, emit))
            if not waiting:
                continue
            one = replace(
                made, max_time=settings.max_time, jobs=settings.jobs or made.jobs, state=settings.state,
                json=settings.json, quiet=settings.quiet, verbose=settings.verbose, cases=None,
                paths=tuple(dict.fromkeys(_place(f.case.seed) for f in waiting)),
            )  # fmt: skip
            work = Reductions(one, store, emit, run_id, again=again)
            work.found.extend(waiting)
            cases |= {f.case.id for f in waiting}
            code = work.run()
            done += work.reduced
            if code == INTERRUPTED:
                return code
    return OK if done else NOTHING_RAN


def _place(seed: Seed) -> str:
    """How the seed is named on the command line."""
    return f"{seed.path}:{seed.name}" if seed.name else seed.path


def _unchanged(waiting: Sequence[_Found], emit: Emit) -> Iterator[_Found]:
    """Cases whose seeds are as they were judged."""
    for found in waiting:
        place = _place(found.case.seed)
        seeds, _ = find_seeds([place]) if Path(found.case.seed.path).is_file() else ([], [])
        if found.case.seed.hash in {s.hash for s in seeds}:
            yield found
        else:
            emit(Warned(f"{place} is another than in the run, or gone: its case is left out"))


def _of_a_unit(finding: Finding) -> bool:
    """Whether the finding is one of the pass rung: what a unit does alone."""
    return finding.unit_case is not None and finding.unit_case.rung == Rung.PASS and not finding.program


def _alone(store: Store, run_id: str, finding: Finding, emit: Emit) -> bool:
    from fxmorph.triage.reduce.unit_graphs import reduce_alone

    folder = Path(store.place(finding.id)[0])
    if not (folder / "seed.py").is_file():
        emit(Warned(f"{finding.id}: the graph that {finding.unit} was given was not stored"))
        return False
    try:
        got = reduce_alone(folder, finding.unit, finding.kinds, Reductions.investigate_seconds)
    except (ValueError, OSError) as error:
        emit(Warned(f"{finding.id}: {error}"))
        return False
    reduced = replace(finding.reduced, nodes=got.nodes, tests=got.tests, finished=got.finished)
    store.add_finding(run_id, replace(finding, reduced=reduced), str(folder))
    return True
