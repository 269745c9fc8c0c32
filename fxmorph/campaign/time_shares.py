"""Kinds of cases side by side, each with a share of the time.

Who is next is decided by what a case of a kind is known to cost, not by what this one took: so the order of cases
depends on the seeds and the campaign seed alone (stride scheduling: Waldspurger and Weihl, 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Lane(Generic[T]):
    """``jobs`` take ``cost`` CPU seconds each, about, by the job or all of them, and get a part of the time in
    proportion to ``share``.

    A job that is None says that results must come in first.  A lane that comes ``after`` another has no part before
    that one has ended.  One that is ``dry`` gives nothing more that counts: where all are, the order ends.
    """

    jobs: Iterator[T | None]
    cost: float | Callable[[T], float]
    share: float
    after: Lane[T] | None = None
    spent: float = 0.0
    dry: Callable[[], bool] = lambda: False

    @property
    def progress(self) -> float:
        return self.spent / self.share


def mixed(lanes: Sequence[Lane[T]]) -> Iterator[T | None]:
    """The jobs of all lanes until each has ended; a lane that waits keeps its place, and all wait with it."""
    left = [lane for lane in lanes if lane.after is None]
    while not all(lane.dry() for lane in left):
        lane = min(left, key=lambda lane: lane.progress)
        try:
            job = next(lane.jobs)
        except StopIteration:
            left.remove(lane)
            for late in [late for late in lanes if late.after is lane]:
                late.spent = lane.progress * late.share  # it has no claim on the time before
                left.append(late)
            continue
        if job is not None:
            lane.spent += lane.cost(job) if callable(lane.cost) else lane.cost
        yield job
