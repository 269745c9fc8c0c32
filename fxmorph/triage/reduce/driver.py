"""The search for a simpler program: passes to a fixed point, within a time box.

Deterministic: passes run in a fixed order, candidates in the order that a pass makes them, and what is
kept is decided by judgements alone (the time box cuts the search short, it chooses nothing).
After Zeller's ddmin (2002) and the passes of Hypothesis and Shrink Ray (MacIver, Donaldson 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fxmorph.judge.trial import ToolchainMissing
from fxmorph.torchapi.devices import DeviceLost
from fxmorph.triage.blame.probe import cpu_seconds
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.order import simplicity

Check = Callable[[Candidate], bool]


class Reduction:
    """``best`` is the simplest program so far that shows the finding; ``tests`` counts judged candidates.

    ``shows`` judges one candidate.  ``same`` is a dearer check that it is the same finding, made
    after each pass that got somewhere: where it fails the pass is undone, and done again with the
    check after each step.  ``seconds`` of CPU, compilers' included, may be spent.  Where ``start`` leaves the modes of
    the process as they were, candidates have to: scripts run both sides in one process.
    """

    def __init__(self, start: Candidate, shows: Check, same: Check, seconds: float) -> None:
        self.best = start
        self.tests = 0
        #: How often a pass had gone over to another finding.
        self.slips = 0
        self._shows, self._same = shows, same
        self._order = simplicity(start)
        self._keeps_modes = bool(start.profile.switches) and start.profile.keeps_modes
        self._refused: set[str] = set()
        self._each_step = False
        self._until = cpu_seconds() + seconds

    @property
    def spent(self) -> bool:
        return cpu_seconds() > self._until

    def attempt(self, candidate: Candidate) -> bool:
        """Take the candidate if it is simpler and shows the same finding."""
        if self.spent:
            return False
        try:
            candidate.graph.lint()
            order = simplicity(candidate)
            if order >= self._order or candidate.digest in self._refused:
                return False
            if self._keeps_modes and not candidate.profile.keeps_modes:
                return False
            self.tests += 1
            taken = self._shows(candidate) and (not self._each_step or self._same(candidate))
        except (DeviceLost, ToolchainMissing):
            raise
        except Exception:  # whatever a program does that is cut in some odd place
            taken = False
        if taken:
            self.best, self._order = candidate, order
        else:
            self._refused.add(_digest(candidate))
        return taken

    def run(self, passes: Sequence[Callable[[Reduction], None]]) -> Candidate:
        """Until no pass gets anywhere, or the time is spent."""
        before = None
        while before is not self.best and not self.spent:
            before = self.best
            for each in passes:
                self._one(each)
        return self.best

    def _one(self, each: Callable[[Reduction], None]) -> None:
        before, order = self.best, self._order
        each(self)
        if self.best is before or self._each_step or self._same(self.best):
            return
        self.slips += 1
        self.best, self._order = before, order
        self._each_step = True
        try:
            each(self)
        finally:
            self._each_step = False


def _digest(candidate: Candidate) -> str:
    try:
        return candidate.digest
    except Exception:  # it has no text
        return ""
