"""Programs that end the process that compiles or runs them."""

from __future__ import annotations

from collections.abc import Callable

from fxmorph.programs.forked import Ending
from fxmorph.triage.blame.probe import Died, apart
from fxmorph.triage.reduce.candidate import Candidate


def crash_of(program: Candidate, run: Callable[[Candidate], object]) -> str:
    """How a child of this process ends that runs the program, as ``crashed (SIGSEGV)``; "" if it does not crash.

    An exception, or no end in time, is no crash.
    """

    def work() -> None:
        run(program)  # what it returns need not be picklable

    try:
        apart(work)
    except Died as died:
        return str(died) if died.ending in (Ending.CRASHED, Ending.EXITED) else ""
    return ""
