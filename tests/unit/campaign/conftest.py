"""A run on one device without workers: what they answer is told to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign import jobs
from fxmorph.campaign.case_schedule import CaseSchedule
from fxmorph.campaign.engine import LocalEngine
from fxmorph.campaign.finding_queue import FindingQueue
from fxmorph.campaign.ledger import Ledger
from fxmorph.campaign.packs import Packs
from fxmorph.campaign.preparation import Preparation
from fxmorph.campaign.run import Run
from fxmorph.core.clock import Clock
from fxmorph.core.config import Settings
from fxmorph.core.pool import Ended
from fxmorph.core.store import Store
from fxmorph.events import RunFinished
from fxmorph.model import Case, CaseResult, Finding, Seed
from fxmorph.triage.conclusion import Investigated


@dataclass
class Campaign:
    """The parts of a run, and the events that it told."""

    settings: Settings
    store: Store
    seeds: tuple[Seed, ...] = ()
    check: bool = False
    baseline: frozenset[str] = frozenset()
    again: dict[str, Finding] = field(default_factory=dict)
    kept: tuple[Seed, ...] = ()
    run_id: str = ""
    told: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        s, tell = self.settings, self.told.append
        self.run_id = self.run_id or self.store.create_run(s, {})
        self.ledger = Ledger(self.store, self.run_id, Clock(), time.monotonic())
        self.queue = FindingQueue(s, self.ledger, tell, self.baseline, s.effective_jobs, again=self.again)
        packs = Packs(s)
        done = self.ledger.results()
        self.schedule = CaseSchedule(
            s, self.seeds, packs, self.ledger, self.queue, tell, None, done, self.check, self.kept
        )
        made = Preparation(
            s, self.store, tell, self.seeds, (), packs, None, self.ledger, self.queue, done, bool(done), s.state_dir,
            LocalEngine(), s.effective_jobs, self.kept,
        )
        self.run = Run(made, self.schedule, "interrupted", check=self.check)

    def hear(self, index: int, case: Case, result: CaseResult, found: Investigated | None = None) -> None:
        """A worker judged the case."""
        self.schedule.hear(Ended(jobs.Judge(index, case), jobs.Judged(result, found)))

    def end(self) -> RunFinished:
        """Time is over; the end of the run as it is told."""
        self.schedule.end()
        self.queue.end()
        return self.finish()

    def finish(self) -> RunFinished:
        """The end of the run as it is told, once its loop has ended."""
        self.run.finish(self.run.exit_code())
        return next(e for e in self.told if isinstance(e, RunFinished))


@pytest.fixture
def new_campaign(tmp_path: Path) -> Iterator[Callable[..., Campaign]]:
    """Makes a run: fields of :class:`Campaign` and of the settings by name."""
    settings = Settings(state=str(tmp_path / "state"), max_time=100.0, jobs=1)
    with Store(settings.state_dir) as store:

        def make(**given: Any) -> Campaign:
            parts = {k: given.pop(k) for k in ("seeds", "check", "baseline", "again", "run_id", "kept") if k in given}
            return Campaign(replace(settings, **given), store, **parts)

        yield make


@pytest.fixture
def campaign(new_campaign: Callable[..., Campaign]) -> Campaign:
    return new_campaign()
