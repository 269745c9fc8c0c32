"""``fxmorph reduce``: what runs left for later, with more time than a run gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fxmorph.campaign.engine import LocalEngine
from fxmorph.campaign.finding_queue import Effort, Found
from fxmorph.campaign.ledger import Emit
from fxmorph.campaign.leftover_schedule import Leftovers, LeftoverSchedule, leftovers, place_of, unchanged
from fxmorph.campaign.preparation import prepare
from fxmorph.campaign.run import Run
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import PAGE, Store, StoredRun
from fxmorph.events import Warned
from fxmorph.model import Finding
from fxmorph.triage.folder.confirm import TIMES

#: What each finding is worth here.
EFFORT = Effort(seconds=300.0, times=TIMES, share=None)


def reduce_findings(settings: Settings, ids: Sequence[str], emit: Emit) -> int:
    """Reduce the findings with these ids further; without ids, all that runs left over.  Writes ``report.html`` anew.

    Returns 1 where something was done and a new finding stands of what was asked for, confirmed or as it was seen, 0
    where what stands is known, 5 where nothing was done, 130 where it was interrupted.  Raises
    :class:`~fxmorph.core.store.StoreError` for an id that is not stored.
    """
    done = 0
    cases: set[str] = set()
    with Store(settings.state_dir) as store:
        wanted = {store.finding(prefix)[0].id for prefix in ids} if ids else None
        for run in store.runs():
            left = leftovers(store, run.id, wanted)
            done += sum(_alone(store, run.id, finding, emit) for finding in left.of_units)
            waiting = unchanged(left.waiting, emit)
            cases |= left.asked | {f.case.id for f in waiting} | {f.case_id for _, _, f in left.undrafted}
            if not waiting and not left.undrafted:
                continue
            reduced, interrupted = _reduce(store, run, waiting, left, settings, emit)
            done += reduced
            if interrupted:
                return Exit.INTERRUPTED
    if not done:
        return Exit.NOTHING_RAN
    from fxmorph.report.html import write_report

    write_report([settings.state_dir], settings.state_dir / PAGE)
    with Store(settings.state_dir, write=False) as store:
        stands = any(f.case_id in cases and not f.known for f in store.findings())
    return Exit.FINDINGS if stands else Exit.OK


def _reduce(
    store: Store, run: StoredRun, waiting: Sequence[Found], left: Leftovers, settings: Settings, emit: Emit
) -> tuple[int, bool]:
    """How many findings stand anew or again or got their report, and whether it was interrupted.

    All under the settings of the run.
    """
    made = run.settings
    seeds = [*(f.case.seed for f in waiting), *(case.seed for _, case, _ in left.undrafted)]
    one = replace(
        made, max_time=settings.max_time, jobs=settings.jobs or made.jobs, state=settings.state,
        json=settings.json, quiet=settings.quiet, verbose=settings.verbose, cases=None,
        paths=tuple(dict.fromkeys(map(place_of, seeds))),
    )  # fmt: skip
    begun = prepare(one, store, emit, LocalEngine(), run.id, effort=EFFORT, again=left.again)
    schedule = LeftoverSchedule(one, begun.seeds, waiting, left.undrafted, begun.queue)
    told = "interrupted; what was reduced is stored, `fxmorph reduce` goes on"
    ended = Run(begun, schedule, told).work()
    begun.ledger.settle()
    return begun.queue.placed + begun.queue.written, not ended


def _alone(store: Store, run_id: str, finding: Finding, emit: Emit) -> bool:
    from fxmorph.triage.reduce.unit_graphs import reduce_alone

    folder = Path(store.place(finding.id)[0])
    if not (folder / "seed.py").is_file():
        emit(Warned(f"{finding.id}: the graph that {finding.unit} was given was not stored"))
        return False
    try:
        got = reduce_alone(folder, finding.unit, finding.kinds, EFFORT.seconds)
    except (ValueError, OSError) as error:
        emit(Warned(f"{finding.id}: {error}"))
        return False
    reduced = replace(finding.reduced, nodes=got.nodes, tests=got.tests, finished=got.finished)
    store.add_finding(run_id, replace(finding, reduced=reduced), str(folder))
    return True
