"""The gate: every proposal, from wherever it comes, is decided about here and nowhere else.

Each is judged in a worker process with a limit of CPU time and memory (``gate_worker.py``).  Outcomes
come in the order of the proposals, so that of two that are the same the first one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fxmorph.core.pool import Ended, Pool, Trouble
from fxmorph.propose.admitted import admitted_rule
from fxmorph.propose.gate.gate_worker import JudgeProposal, serve
from fxmorph.propose.gate.outcomes import shipped_packs
from fxmorph.propose.language.sameness import Known
from fxmorph.propose.proposal import TOO_LONG, Judged, Line, Outcome, RuleProposal, outcome_of, read_text

#: CPU seconds that one proposal may take.
LIMIT = 200.0


class Gate:
    """A context manager; ``done`` are outcomes by hash that need not be made again.

    ``transforms`` are folders of further rules, ``state`` the folder for proofs and the workers' log,
    ``corpus`` the seeds that proposals speak of (those that come with fxmorph).
    """

    def __init__(
        self,
        jobs: int,
        transforms: Iterable[str],
        state: Path,
        done: Mapping[str, Judged] | None = None,
        limit: float = LIMIT,
        corpus: Path | None = None,
    ) -> None:
        state.mkdir(parents=True, exist_ok=True)
        arguments = (tuple(transforms), str(corpus or shipped_packs().parent), str(state.resolve()))
        self._pool = Pool(jobs, serve, arguments, ["fxmorph.propose.gate.gate_worker"])
        self._done, self._limit = dict(done or {}), limit
        #: What was admitted so far: by hash, rules, and seeds by key.
        self._hashes: set[str] = set()
        self._rules = Known(())
        self._seeds: dict[str, str] = {}

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def judge(self, line: Line) -> Judged:
        """The outcome of one proposal."""
        return next(self.judge_all([line]))

    def judge_all(self, lines: Iterable[Line], going_on: Callable[[], bool] = lambda: True) -> Iterator[Judged]:
        """Outcomes in the order of ``lines``; once ``going_on`` says no, only of those that need no work."""
        every = list(lines)
        for ended in self._pool.run(self._jobs(every, going_on), self._limit, ordered=True):
            yield self._first(every[ended.job.index], _outcome(ended))

    def _jobs(self, lines: Sequence[Line], going_on: Callable[[], bool]) -> Iterator[JudgeProposal | Ended]:
        for index, line in enumerate(lines):
            job = JudgeProposal(index, line.text, line.source)
            known = self._known(line)
            if known is not None:
                yield Ended(job, known)
            elif going_on():
                yield job

    def _known(self, line: Line) -> Judged | None:
        """The outcome that is known without work, if there is one."""
        if line.proposal is None:
            return outcome_of(line, Outcome.MALFORMED, line.error)
        found = self._done.get(line.hash)
        if found is None or found.late:  # on a busy machine it may come another time
            return None
        return replace(found, source=line.source)

    def _first(self, line: Line, judged: Judged) -> Judged:
        """``judged``, or a duplicate where an admitted proposal before it says the same."""
        if judged.outcome is not Outcome.ADMITTED:
            return judged
        # Known does not compare a rule with one of its own name.
        same = judged.name if judged.hash in self._hashes else ""
        self._hashes.add(judged.hash)
        if not same and isinstance(line.proposal, RuleProposal):
            rule = admitted_rule(line.proposal, judged)
            same = self._rules.same_as(rule)
            if not same:
                self._rules.add(rule)
        elif not same and judged.key:
            first = self._seeds.setdefault(judged.key, judged.hash)
            same = "" if first == judged.hash else "an earlier proposal"
        if not same:
            return judged
        return replace(
            judged, outcome=Outcome.DUPLICATE, reason=f"same as {same}", same_as=same, level=None, claim=None,
            levels=(), dropped=(), key="", fires=(),
        )  # fmt: skip


def _outcome(ended: Ended) -> Judged:
    """What a job ended in; one that took its worker with it is ``unknown``."""
    if isinstance(ended.value, Judged):
        return ended.value
    line = read_text(ended.job.text, ended.job.source)
    why = {Trouble.TIMEOUT: f"{TOO_LONG}: ", Trouble.CRASH: "its process ended: "}.get(ended.trouble, "")
    unknown = outcome_of(line, Outcome.UNKNOWN, why + ended.detail)
    return replace(unknown, seconds=round(ended.cpu, 2), late=ended.trouble is Trouble.TIMEOUT)
