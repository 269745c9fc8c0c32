"""Programs that others grow from: those on which a pass read on, and those on which it stopped where it had before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fxmorph.inductor.firing.small_program import SmallProgram

#: Calls of a program that led nowhere and is changed all the same.
SHORT = 3


@dataclass
class Frontier:
    """``expanded`` makes larger ones of a program."""

    expanded: Callable[[SmallProgram], Iterator[SmallProgram]]
    _streams: list[Iterator[SmallProgram]] = field(default_factory=list)
    _small: list[SmallProgram] = field(default_factory=list)

    def add(self, program: SmallProgram, read_on: bool) -> None:
        """Grow it: at once where the pass read on, else once there is nothing better."""
        if read_on:
            self._streams.append(self.expanded(program))
        elif len(program.steps) <= SHORT:
            self._small.append(program)

    def grown(self) -> Iterator[SmallProgram | None]:
        """Changes of what was read on, the latest first, and of every other in turn; None as long as there is none."""
        turn, place = 0, random.Random(0)
        while True:
            if not self._streams and self._small:
                self._streams.append(self.expanded(self._small.pop(place.randrange(len(self._small)))))
            if not self._streams:
                yield None
                continue
            turn += 1
            stream = self._streams[-1 if turn % 3 else turn // 3 % len(self._streams)]
            found = next(stream, None)
            if found is None:
                self._streams.remove(stream)
            else:
                yield found
