"""A run: jobs of a schedule and of the finding queue to workers, what they answer back, until time or work is over.

This process runs no program and compiles nothing; it plans, stores and tells.  It is the only writer of the store.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from fxmorph.campaign import jobs
from fxmorph.campaign.engine import Crew
from fxmorph.campaign.preparation import Preparation, header
from fxmorph.campaign.schedule import LATEST, Schedule, too_many
from fxmorph.core.exits import Exit
from fxmorph.core.gpu_forks import ASK_NVML
from fxmorph.core.pool import Ended, Workers
from fxmorph.core.scripts import ScriptServer
from fxmorph.core.store import PAGE
from fxmorph.core.versions import version_of
from fxmorph.events import Checked, Progress, RunFinished, RunStarted, SeedRefused, Warned
from fxmorph.model import Status
from fxmorph.triage.folder.repro_run import fresh_environment

#: The module of the process that findings' scripts are forked from, which loads torch's compiler.
SCRIPT_SERVER = "fxmorph.triage.folder.script_server"


class Run:
    """One run on one device.

    ``interrupted`` is what Ctrl-C is answered with; ``check``: it is one of ``fxmorph check``; ``devices`` are those
    that this process runs on in turn, where there are more.
    """

    def __init__(
        self, made: Preparation, schedule: Schedule, interrupted: str, check: bool = False, devices: Sequence[str] = ()
    ) -> None:
        self._made, self._schedule, self._interrupted = made, schedule, interrupted
        self._check, self._devices = check, tuple(devices or made.settings.devices)
        self._settings, self._emit = made.settings, made.emit
        self._ledger, self._queue = made.ledger, made.queue
        self._jobs = schedule.jobs()
        self._scripts = ScriptServer(SCRIPT_SERVER, {**fresh_environment(made.cache), **ASK_NVML})
        #: What was begun last.
        self._at_work = ""
        #: The schedule has no more jobs, or as many as were asked for are done.
        self._exhausted = False

    def run(self) -> int:
        """The whole run, from the first event to the last; returns the exit code."""
        self.start()
        if not self._made.seeds:
            return self.finish(self.exit_code())
        return self.finish(self.exit_code() if self.work() else Exit.INTERRUPTED)

    def work(self) -> bool:
        """All jobs; whether they came to their end, and were not interrupted."""
        s, made = self._settings, self._made
        (s.state_dir / "workers.log").write_text("")
        made.packs.ask_where_stalled(made.store, self._ledger.run_id, self._emit)
        try:
            with self._scripts:
                crew = Crew(made.workers, s.device, self._devices, s.state_dir, self._workers_arguments())
                with made.engine.workers(crew, lambda said: self._emit(Warned(said))) as pool:
                    self._loop(pool)
                with self._ledger.activity("confirm"):
                    self._scripts.end()
                self._ledger.seconds["start"] += pool.server_cpu()
        except KeyboardInterrupt:
            self._emit(Warned(self._interrupted))
            return False
        return True

    # -- before ----------------------------------------------------------------

    def start(self) -> None:
        """Tell the header, of a run that goes on what it has confirmed, and the seeds that do not load."""
        s, made = self._settings, self._made
        run_id = self._ledger.run_id
        notes = [f"shard {s.shard} of the campaign"] if s.shard is not None else []
        notes += [f"resuming run {run_id}: {len(made.done)} cases are done"] if made.resumed else []
        versions = {"fxmorph": version_of("fxmorph"), "torch": version_of("torch"), "python": sys.version.split()[0]}
        self._emit(
            RunStarted(
                run_id=run_id,
                seed=s.seed,
                torch=version_of("torch"),
                device=s.device,
                rungs=tuple(self._schedule.rungs),
                versions=versions,
                budget_s=s.max_time if isfinite(s.max_time) else None,
                jobs=made.workers,
                seeds=len(made.seeds),
                rules=len(made.packs.rules) if s.rewrites else 0,
                state_dir=s.state,
                notes=(*notes, *self._kept_note(), *made.packs.notes()),
                command="check" if self._check else "run",
            )
        )
        if made.resumed:
            self._queue.tell_stored()
        for refusal in made.refusals:
            self._ledger.add_refusal(refusal.path, refusal.reason)
            checked = Checked(refusal.path, Status.ERROR, reason=refusal.reason)
            self._emit(checked if self._check else SeedRefused(refusal.path, refusal.reason))
            self._ledger.counts["refused"] += 1

    def _kept_note(self) -> list[str]:
        kept = len(self._made.kept)
        if not kept:
            return []
        where = Path(self._made.kept[0].path).parent
        return [f"starts from {kept} program{'s' if kept > 1 else ''} that earlier runs kept in {where}"]

    @property
    def _forks_scripts(self) -> bool:
        """As workers are."""
        return self._made.engine.forks_scripts(self._devices)

    def _workers_arguments(self) -> tuple[Any, ...]:
        state = self._settings.state_dir.resolve()
        return (
            [str(Path(p).resolve()) for p in self._settings.transforms],
            str(self._made.cache),
            str(state / "workers.log"),
            str(state / "proofs"),
            [str(p.resolve()) for p in self._made.packs.folders],
            [str(Path(p).resolve()) for p in self._settings.oracles],
            self._scripts.address if self._forks_scripts else "",
        )

    # -- the loop --------------------------------------------------------------

    def _loop(self, pool: Workers) -> None:
        s, queue = self._settings, self._queue
        told = 0.0
        while True:
            elapsed = self._ledger.elapsed
            case_time = elapsed < s.max_time * self._schedule.until
            while pool.idle and elapsed < s.max_time:
                cases_left = case_time and not self._exhausted and self._schedule.judged != self._planned
                if queue.wants(cases_left):
                    of_finding, limit = queue.next_job(s.max_time - elapsed, cases_left)
                    if isinstance(of_finding, (jobs.Confirm, jobs.Identify)) and self._forks_scripts:
                        self._scripts.begin()
                    pool.submit(of_finding, limit)
                    continue
                job = self._next_case(pool) if case_time else self._next_late(elapsed)
                if job is None:
                    break
                if not self._schedule.recalled(job):
                    self._at_work = jobs.label_of(job) or self._at_work
                    pool.submit(job, self._schedule.limit(job))
            more = (case_time and not self._exhausted) or queue.wants(cases_left=False)
            if elapsed >= s.max_time or not (pool.busy or more):
                break
            for ended in pool.ended(timeout=0.5):
                self._hear(ended)
            if self._ledger.elapsed - told > 1.0:
                told = self._ledger.elapsed
                self._tell_progress(case_time)
        if not self._schedule.judged and elapsed >= s.max_time:
            why = "workers import torch, and a first compile in a new folder takes half a minute"
            self._emit(Warned(f"--max-time {s.max_time:g}s ended before the first case did: {why}; give it more"))
        self._schedule.end()
        queue.end()

    def _next_case(self, pool: Workers) -> Any:
        """The schedule's next job; None where there is none now."""
        if self._exhausted:
            return None
        packs = len(self._made.packs.folders)
        try:
            job = next(self._jobs)
        except StopIteration:
            job, self._exhausted = None, True
        if len(self._made.packs.folders) > packs:
            pool.renew(self._workers_arguments())
            self._ledger.set_header(header(self._settings, self._made.packs, self._made.kept))
        return job

    def _next_late(self, elapsed: float) -> Any:
        """One whose finding needs no investigation, while there is time to confirm it; None where there is none now."""
        if self._exhausted or elapsed >= self._settings.max_time * LATEST:
            return None
        return next(self._schedule.late_jobs, None)

    def _hear(self, ended: Ended) -> None:
        mine = isinstance(ended.job, (jobs.Investigate, jobs.Confirm, jobs.Identify, jobs.WriteUp))
        (self._queue if mine else self._schedule).hear(ended)

    @property
    def _planned(self) -> int | None:
        """How many cases there are to be; None where nothing but time ends them."""
        return self._settings.max_cases if self._settings.max_cases is not None else self._schedule.planned

    def _tell_progress(self, case_time: bool) -> None:
        s, elapsed = self._settings, self._ledger.elapsed
        left = max(s.max_time - elapsed, 0.0)
        phase = "judging" if case_time else "investigating findings"
        judged, findings = self._schedule.judged, len(self._queue.new)
        self._emit(Progress(judged, self._planned, findings, elapsed, left, phase, self._at_work))

    # -- after -----------------------------------------------------------------

    def exit_code(self) -> int:
        """Of a run that was not interrupted, by what it found so far."""
        counts, judged = self._ledger.counts, self._schedule.judged
        if counts[Status.UNSOUND_REWRITE.value]:
            return Exit.UNSOUND
        if counts[Status.IR_ONLY.value] or self._queue.new or (self._queue.known and self._settings.fail_on_known):
            return Exit.FINDINGS
        if self._schedule.unjudged or counts["refused"] or too_many(counts[Status.ERROR.value], judged):
            return Exit.INTERNAL
        return Exit.NOTHING_RAN if counts["unreached"] or not judged else Exit.OK

    def finish(self, code: int) -> int:
        """Store and tell how the run ended; returns ``code``."""
        ledger, queue = self._ledger, self._queue
        queue.tell_seen()
        ledger.settle()
        finished = RunFinished(
            run_id=ledger.run_id,
            exit_code=code,
            counts=dict(ledger.counts),
            rungs=dict(self._schedule.rungs),
            findings=queue.new,
            known=queue.known,
            duplicates=queue.duplicates,
            edge_cases=ledger.counts[Status.EDGE_CASE.value],
            cases=self._schedule.judged,
            coverage=self._schedule.coverage(),
            seconds={k: round(v, 2) for k, v in sorted(ledger.seconds.items())},
            wall_s=round(ledger.elapsed, 1),
            report="" if self._check else str(self._settings.state_dir / PAGE),
        )
        ledger.finish(finished.to_json(), resumable=code == Exit.INTERRUPTED)
        self._emit(finished)
        return code
