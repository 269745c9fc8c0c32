"""What a run keeps: counts, CPU seconds by activity, and all that goes into the store under its id."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fxmorph.core.clock import Clock
from fxmorph.core.store import Store
from fxmorph.core.versions import versions
from fxmorph.events import Event
from fxmorph.model import Case, CaseResult, Finding
from fxmorph.triage.folder.confirm import write_finding

Emit = Callable[[Event], None]


class Ledger:
    """The account of one run.  ``clock`` is this process's, ``started`` the run's first moment (monotonic seconds)."""

    def __init__(self, store: Store, run_id: str, clock: Clock, started: float) -> None:
        self.run_id = run_id
        #: Cases by verdict, and what else is counted at the end.
        self.counts: Counter[str] = Counter()
        #: CPU seconds of all processes by activity.
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._store, self._clock, self._started = store, clock, started

    @property
    def elapsed(self) -> float:
        """Wall seconds of this part of the run."""
        return time.monotonic() - self._started

    def activity(self, name: str) -> AbstractContextManager[None]:
        """What this process does inside counts for ``name``."""
        return self._clock.activity(name)

    def add_seconds(self, seconds: Iterable[tuple[str, float]]) -> None:
        """Add CPU seconds of other processes."""
        for activity, used in seconds:
            self.seconds[activity] += used

    # -- what is stored ----------------------------------------------------------

    def results(self) -> dict[str, CaseResult]:
        """By case id, in the order of the run."""
        return self._store.results(self.run_id)

    def placed(self) -> list[tuple[Finding, str, str]]:
        """Findings, those only seen and duplicates too, oldest first: each with its folder and what it duplicates."""
        return self._store.placed(self.run_id)

    def add_result(self, index: int, case: Case, result: CaseResult) -> None:
        with self.activity("store"):
            self._store.add_result(self.run_id, index, case, result)

    def add_passes(self, index: int, source: str, judged: Any) -> None:
        """``judged`` is a plain table."""
        self._store.add_passes(self.run_id, index, source, judged)

    def add_refusal(self, path: str, reason: str) -> None:
        self._store.add_refusal(self.run_id, path, reason)

    def add_finding(
        self, finding: Finding, folder: Path | None, duplicate_of: str = "", instead_of: str = ""
    ) -> None:  # fmt: skip
        """``folder`` is None for a duplicate, which has none; the finding takes the place of ``instead_of``, an id."""
        self._store.add_finding(self.run_id, finding, str(folder or ""), duplicate_of, instead_of)

    def forget_finding(self, finding: Finding) -> None:
        self._store.forget_finding(self.run_id, finding)

    def write_folder(self, folder: Path, finding: Finding) -> None:
        """The finding with its repro; raises ``ValueError`` where its program is none that scripts are made of."""
        with self.activity("store"):
            write_finding(folder, finding, versions(), self._store.path / "proofs")

    def set_header(self, header: Mapping[str, Any]) -> None:
        self._store.set_header(self.run_id, header)

    def settle(self) -> None:
        """Store the seconds, this process's too; once, at the end."""
        for activity, used in self._clock.take():
            self.seconds["parent" if activity == "idle" else activity] += used
        self._store.add_seconds(self.run_id, dict(self.seconds))

    def finish(self, summary: Mapping[str, Any], resumable: bool) -> None:
        self._store.finish_run(self.run_id, summary, resumable=resumable)
