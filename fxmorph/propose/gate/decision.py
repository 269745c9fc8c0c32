"""How the gates say what became of one proposal."""

from __future__ import annotations

import time
from typing import Any

from fxmorph.events import ProposalJudged
from fxmorph.propose.proposal import (
    Judged,
    Line,
    MutationProposal,
    Outcome,
    RecipeProposal,
    RuleProposal,
    SeedProposal,
    Task,
    printable,
)


class Said:
    """Makes records of one proposal, with the CPU time since it was made itself."""

    def __init__(
        self, proposal: RuleProposal | SeedProposal | RecipeProposal | MutationProposal, task: Task, source: str
    ) -> None:
        self._proposal, self._task, self._source = proposal, task, source
        self._started = time.process_time()

    def __call__(self, outcome: Outcome, **more: Any) -> Judged:
        seconds = round(time.process_time() - self._started, 2)
        p = self._proposal
        if "reason" in more:  # it may quote the proposal
            more["reason"] = printable(more["reason"])
        return Judged(self._task, p.name, p.hash, outcome, source=self._source, seconds=seconds, **more)


def error_line(error: Exception) -> str:
    """The exception's class and the first line of its message, at most 300 characters, control characters left out."""
    return printable(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")[:300]


def told(judged: Judged, line: Line) -> ProposalJudged:
    """An outcome of the proposal of ``line`` as the event that reporters take."""
    return ProposalJudged(
        judged.task.value, judged.name, judged.source, judged.outcome.value, judged.reason,
        judged.level.value if judged.level else "", dict(judged.levels), tuple(f"{p}: {c}" for p, c in judged.dropped),
        judged.counterexample, judged.made, judged.fires, judged.seconds, judged.cached,
        line.proposal.aims if line.proposal is not None else "",
    )  # fmt: skip
