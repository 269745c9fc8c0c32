"""The loop of a run on a pool that answers at once: what goes out in which order, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign import jobs
from fxmorph.campaign.case_schedule import MOST_ON_GPU, UNTIL, UNTIL_NOTHING_NEW
from fxmorph.campaign.schedule import LATEST
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended
from fxmorph.events import CaseDone, FindingMade, Warned
from fxmorph.model import CaseResult, Kind, Seed, Status

SEEDS = tuple(Seed(f"{name}.py", "module", name) for name in "abcd")
INVESTIGATED = ("Investigate", "b")


class OneWorker:
    """A pool of one: ``answer`` says how a job ends."""

    def __init__(self, answer: Callable[[Any], Ended]) -> None:
        self.jobs: list[Any] = []
        self._answer, self._job = answer, None

    @property
    def idle(self) -> int:
        return int(self._job is None)

    @property
    def busy(self) -> bool:
        return self._job is not None

    def submit(self, job: Any, limit: float) -> None:
        assert self._job is None and limit > 0
        self._job = job
        self.jobs.append(job)

    def ended(self, timeout: float) -> Iterator[Ended]:
        job, self._job = self._job, None
        if job is not None:
            yield self._answer(job)


def answer(job: Any) -> Ended:
    """Seed b differs, and nothing stands alone of it; all else is clean."""
    if isinstance(job, jobs.Investigate):
        return Ended(job, None, "timeout", detail="60 s")
    differs = job.case.seed.path == "b.py"
    kinds = (Kind.VALUE,) if differs else ()
    return Ended(job, jobs.Judged(CaseResult(job.case.id, Status.FINDING if differs else Status.CLEAN, kinds, "off")))


def went_out(pool: OneWorker) -> list[tuple[str, str]]:
    return [(type(job).__name__, job.case.seed.path[0]) for job in pool.jobs]


def test_a_case_that_differs_is_investigated_before_the_next_one_and_told_where_nothing_came_of_it(
    new_campaign: Any,
) -> None:
    campaign, pool = new_campaign(seeds=SEEDS, rewrites=False), OneWorker(answer)
    campaign.run._loop(pool)
    assert went_out(pool) == [("Judge", "a"), ("Judge", "b"), *[INVESTIGATED] * 3, ("Judge", "c"), ("Judge", "d")]
    manners = [job.manner for job in pool.jobs if isinstance(job, jobs.Investigate)]
    assert manners == [jobs.Manner.HERE, jobs.Manner.BLAMED, jobs.Manner.AS_FOUND]
    assert [e.index for e in campaign.told if isinstance(e, CaseDone)] == [0, 1, 2, 3]
    finished = campaign.finish()
    assert (finished.exit_code, finished.cases, finished.counts["unconfirmed"]) == (Exit.FINDINGS, 4, 1)
    (told,) = (e for e in campaign.told if isinstance(e, FindingMade))
    assert (told.finding.id,) == finished.findings


def test_no_more_cases_go_out_than_were_asked_for(new_campaign: Any) -> None:
    campaign, pool = new_campaign(seeds=SEEDS, rewrites=False, max_cases=1), OneWorker(answer)
    campaign.run._loop(pool)
    assert went_out(pool) == [("Judge", "a")]
    assert campaign.finish().exit_code == Exit.OK


def test_without_time_nothing_goes_out(new_campaign: Any) -> None:
    campaign, pool = new_campaign(seeds=SEEDS, rewrites=False, max_time=0.0), OneWorker(answer)
    campaign.run._loop(pool)
    assert not pool.jobs
    assert any("before the first case did" in e.message for e in campaign.told if isinstance(e, Warned))
    assert campaign.finish().exit_code == Exit.NOTHING_RAN


def test_what_a_run_that_goes_on_has_judged_already_goes_to_no_worker(new_campaign: Any) -> None:
    before = new_campaign(seeds=SEEDS, rewrites=False, max_cases=2)
    before.run._loop(OneWorker(answer))
    after, pool = new_campaign(seeds=SEEDS, rewrites=False, run_id=before.run_id), OneWorker(answer)
    after.run._loop(pool)
    assert went_out(pool) == [*[INVESTIGATED] * 3, ("Judge", "c"), ("Judge", "d")]
    assert after.finish().cases == 4


def test_a_gpu_leaves_more_time_for_the_last_findings(new_campaign: Any) -> None:
    for seconds, until in ((100.0, 1 - MOST_ON_GPU), (450.0, 0.8), (3600.0, UNTIL)):
        campaign = new_campaign(seeds=SEEDS, device="cuda", max_time=seconds)
        assert campaign.schedule.until == pytest.approx(until)


def test_units_alone_go_on_when_time_for_cases_is_over(
    new_campaign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    corpus = (str(tmp_path / "corpus"),)
    campaign = new_campaign(seeds=SEEDS, max_time=50.0, paths=corpus)
    monkeypatch.setattr(campaign.schedule._portfolio, "of_units", iter(["one", None, "two"]))
    assert campaign.run._next_late(48.0) == "one"
    assert campaign.run._next_late(48.0) is None and campaign.run._next_late(48.4) == "two"
    assert campaign.run._next_late(48.4) is None
    monkeypatch.setattr(campaign.schedule._portfolio, "of_units", iter(["three"]))
    assert campaign.run._next_late(50.0 * LATEST) is None
    counted = new_campaign(seeds=SEEDS, max_time=50.0, max_cases=5, paths=corpus)
    assert counted.run._next_late(48.0) is None  # as many as were asked for, and no more


def test_cases_end_earlier_where_something_new_waits(new_campaign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = new_campaign(seeds=SEEDS, rewrites=False)
    case = next(job.case for job in campaign.schedule.jobs())
    assert campaign.schedule.until == UNTIL_NOTHING_NEW
    campaign.queue.see(0, case, CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off"), None)
    assert campaign.schedule.until == UNTIL < UNTIL_NOTHING_NEW
    monkeypatch.setattr("fxmorph.campaign.finding_queue.seen_before", lambda case, result: True)
    assert campaign.schedule.until == UNTIL_NOTHING_NEW
    assert new_campaign(seeds=SEEDS, check=True).schedule.until == 1
