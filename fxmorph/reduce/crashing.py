"""Programs that end the process that compiles or runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fxmorph.inductor.forked import Crashed, forked
from fxmorph.reduce.candidate import Candidate

#: Wall seconds after which a child that has not ended is no crash.
CHILD_SECONDS = 120.0


def crash_of(program: Candidate, run: Callable[[Candidate], object]) -> str:
    """How a child of this process ends that runs the program, as ``crashed (SIGSEGV)``; "" if it does not crash.

    An exception, or no end in time, is no crash.
    """

    def work(candidate: Candidate) -> Iterator[str]:
        run(candidate)
        yield "it came back"

    ((_, said),) = forked([program], work, CHILD_SECONDS)
    if isinstance(said, Crashed) and said.reason.startswith(("crashed", "exited")):
        return said.reason
    return ""
