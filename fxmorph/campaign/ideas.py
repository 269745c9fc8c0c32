"""Admitted proposals that a campaign has yet to try, those first that make most new units of Inductor fire.

The gate notes what the program of each proposal makes fire (``Judged.fires``).  The order is greedy: each time
the proposal that adds most to what has fired and to what those before it add, which is within 1 - 1/e of the
best choice of as many (Nemhauser, Wolsey and Fisher 1978).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fxmorph.model import Seed
from fxmorph.rules import Registry

if TYPE_CHECKING:  # it loads what runs without proposals do not need
    from fxmorph.propose.gate.outcomes import Chain


#: So many rules that may make a new unit fire are drawn more often.
PROMISING = 24


@dataclass(frozen=True)
class Idea:
    """A seed, or a recipe for seeds that are there; ``fires`` are units of Inductor."""

    what: Seed | Chain
    fires: frozenset[str] = frozenset()


class Ideas:
    """Each is given out once."""

    def __init__(self) -> None:
        self._left: list[Idea] = []

    def __len__(self) -> int:
        return len(self._left)

    def add(self, ideas: Iterable[Idea]) -> None:
        self._left.extend(ideas)

    def next(self, count: int, fired: Collection[str]) -> list[Idea]:
        """The next ``count`` ideas, once the units in ``fired`` have fired; those that add none come last, in order."""
        chosen: list[Idea] = []
        reached = set(fired)
        while self._left and len(chosen) < count:
            gains = [len(idea.fires - reached) for idea in self._left]
            best = gains.index(max(gains))
            if not gains[best]:
                rest = count - len(chosen)
                chosen += self._left[:rest]
                del self._left[:rest]
                break
            chosen.append(self._left.pop(best))
            reached |= chosen[-1].fires
        return chosen


def promising(rules: Registry, fired: Collection[str]) -> tuple[str, ...]:
    """Ids of the rules whose right sides make most units fire that have not fired, none without any."""
    gains = {rule.id: len(rule.fires.difference(fired)) for rule in rules}
    best = sorted((id for id, gain in gains.items() if gain), key=lambda id: (-gains[id], id))
    return tuple(best[:PROMISING])
