"""The smallest set with the same coverage: weighted set cover.

The greedy choice, each time what covers most that is new for its cost, is within ln n of the cheapest cover (Chvátal,
"A greedy heuristic for the set-covering problem", 1979); ``afl-cmin`` and libFuzzer's ``-merge=1`` choose alike.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Candidate(Generic[T]):
    """What it covers, at what cost (more than 0).  One that is ``kept`` is chosen whatever it adds."""

    covers: frozenset[T]
    cost: float
    kept: bool = False


@dataclass(frozen=True)
class Choice(Generic[T]):
    """The candidate at the place ``index``, and what it covers that none chosen before it does."""

    index: int
    adds: frozenset[T]


def minimal_set(candidates: Sequence[Candidate[T]]) -> list[Choice[T]]:
    """Candidates that together cover all that all do, those that are kept first, then what covers most for its cost.

    Of equals the first counts.  What later choices made superfluous is left out again.
    """
    chosen = [index for index, candidate in enumerate(candidates) if candidate.kept]
    covered = {item for index in chosen for item in candidates[index].covers}
    chosen += _greedy(candidates, covered)
    return _choices(candidates, _needed(candidates, chosen))


def _greedy(candidates: Sequence[Candidate[T]], covered: set[T]) -> list[int]:
    """Places in the order of choice.  Gains only shrink, so that an old one is a bound (Minoux 1978)."""
    chosen: list[int] = []
    heap = [(-len(c.covers) / c.cost, index) for index, c in enumerate(candidates) if not c.kept]
    heapq.heapify(heap)
    while heap:
        _, index = heapq.heappop(heap)
        candidate = candidates[index]
        now = (-len(candidate.covers - covered) / candidate.cost, index)
        if not now[0]:
            continue
        if heap and heap[0] < now:
            heapq.heappush(heap, now)
            continue
        chosen.append(index)
        covered |= candidate.covers
    return chosen


def _needed(candidates: Sequence[Candidate[T]], chosen: Collection[int]) -> list[int]:
    """Those that are kept, or cover something alone; the dearest are asked first."""
    times = Counter(item for index in chosen for item in candidates[index].covers)
    dropped = set()
    for index in sorted(chosen, key=lambda index: -candidates[index].cost):
        candidate = candidates[index]
        if not candidate.kept and all(times[item] > 1 for item in candidate.covers):
            dropped.add(index)
            times.subtract(candidate.covers)
    return [index for index in chosen if index not in dropped]


def _choices(candidates: Sequence[Candidate[T]], chosen: Sequence[int]) -> list[Choice[T]]:
    covered: set[T] = set()
    choices = []
    for index in chosen:
        choices.append(Choice(index, frozenset(candidates[index].covers - covered)))
        covered |= candidates[index].covers
    return choices
