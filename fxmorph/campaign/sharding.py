"""The order of a campaign as its shards see it.

Each shard walks through the same places of the same order and gives out the cases that are its own.  What stands at a
place must not hang on a result that another shard has: so all cases of one program are one shard's, the results of a
seed steer its own variants alone, and a place whose case is not needed stays empty where it would be left out else.
One process that does the same is ``--shard 1/1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TypeVar

from fxmorph.campaign.variants import Place, Variants
from fxmorph.core.shard import Shard
from fxmorph.model import Case

T = TypeVar("T")


class Passed(Enum):
    """A place in the order at which this shard gives out nothing."""

    PASSED = "passed"


def places(shard: Shard | None, turns: Iterable[Iterable[T | None]]) -> Iterator[T | Passed | None]:
    """Each of ``turns`` gives one case or none, after None where results must come in first; without a shard as it
    is.
    """
    for place, turn in enumerate(turns):
        if shard is None:
            yield from turn
        elif shard.takes(place):
            given = False
            for case in turn:
                given |= case is not None
                yield case
            if not given:
                yield Passed.PASSED
        else:
            yield Passed.PASSED


class VariantsApart:
    """Variants of a shard's seeds, a place for each seed of the campaign in each turn.

    ``make`` gives the variants that one seed's results alone steer.
    """

    def __init__(self, shard: Shard, make: Callable[[Place], Variants], place: Place) -> None:
        self._shard, self._make, self._place = shard, make, place
        self._going: dict[int, Iterator[Case | None]] | None = None

    @property
    def dry(self) -> bool:
        """Whether this shard's seeds have no more variants, so that all further places are empty."""
        return self._going is not None and not self._going

    def after(self, looks: Sequence[Case]) -> Iterator[Case | Passed | None]:
        """Variants of the seeds that ``looks``, those of all shards, judge as they are; without end."""
        self._going = {
            number: self._make(self._placing(number, len(looks))).after([look])
            for number, look in enumerate(looks)
            if self._shard.takes(number)
        }
        while looks:
            for number in range(len(looks)):
                yield from self._turn(self._going, number)

    def _turn(self, going: dict[int, Iterator[Case | None]], number: int) -> Iterator[Case | Passed | None]:
        """The next variant of a seed, after what it waits for."""
        for case in going.get(number, ()):
            yield case
            if case is not None:
                return
        going.pop(number, None)
        yield Passed.PASSED

    def _placing(self, number: int, seeds: int) -> Place:
        """Places of one seed's cases among those of all: a step that is odd goes through all remainders of 4."""
        return lambda case, before: self._place(case, number + before * (seeds | 1))
