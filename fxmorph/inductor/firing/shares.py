"""Several sources of programs, each with its share of what is tried.

Which program comes next depends on those before it alone, never on how long they took: a slow machine tries the first
ones of the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fxmorph.inductor.firing.small_program import SmallProgram

Each = TypeVar("Each")


@dataclass
class Source:
    """Programs of one sort: ``programs`` gives None as long as it has none.

    ``share``: how much of the work it may have, in proportion to the others: 0 where it is not wanted, infinity where
    it comes before all others.  ``near``: what it gives are near misses.  So many programs (``sure``) are to be tried
    of it however long that takes; ``given`` counts them.  ``work``: what the last one was, which who tries it says.
    ``start``: how much work for each unit of their shares others do before, as long as they have some.
    """

    programs: Iterator[SmallProgram | None]
    share: Callable[[], float]
    near: bool = False
    sure: int = 0
    given: int = 0
    work: float = 1.0
    start: float = 0.0


@dataclass
class _Queued:
    """A source, and the time at which it is next: work done, as if each source worked at the speed of its share."""

    source: Source
    next_at: float

    def turn(self, now: float) -> tuple[bool, float]:
        return self.source.share() < math.inf, max(now, self.next_at)


def in_shares(sources: Sequence[Source], lasts: Callable[[Source], bool]) -> Iterator[tuple[Source, SmallProgram]]:
    """Programs with their sources, as long as one of these ``lasts`` and has more.

    Start-time fair queueing (Goyal et al. 1996).
    """
    queue, now = [_Queued(source, source.start) for source in sources], 0.0
    while True:
        wanted = [each for each in queue if each.source.share() > 0 and lasts(each.source)]
        for each in sorted(wanted, key=lambda queued: queued.turn(now)):
            program = next(each.source.programs, None)
            if program is not None:
                now, share = max(now, each.next_at), each.source.share()
                each.source.given += 1
                yield each.source, program
                each.next_at = now + each.source.work / share
                break
        else:
            return


def of_each(
    some: Sequence[Each], make: Callable[[Each], Iterator[SmallProgram | None]], at_once: bool = True
) -> Iterator[SmallProgram | None]:
    """What is made of each in turn, of those that come to be there as well; None as long as there is nothing.

    Not ``at_once``: of one more in each turn, so that as much is made of the first one as others are begun with.
    """
    streams: list[Iterator[SmallProgram | None]] = []
    known = 0
    while True:
        begun = some[known:] if at_once else some[known : known + 1]
        known += len(begun)
        streams += map(make, begun)
        nothing = True
        for stream in list(streams):
            try:
                program = next(stream)
            except StopIteration:
                streams.remove(stream)
                continue
            if program is not None:
                nothing = False
                yield program
        if nothing and known == len(some):
            yield None
