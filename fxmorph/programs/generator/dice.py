"""Choices drawn from a key, the same ones on every machine and in every Python."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """A stream of choices.  Only ``Random.random`` is asked, whose stream Python promises to keep."""

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
        self._next = random.Random(int.from_bytes(digest[:8], "big")).random

    def chance(self, share: float) -> bool:
        return self._next() < share

    def below(self, n: int) -> int:
        return int(self._next() * n)

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def one_of(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[Item], weights: Sequence[float]) -> Item:
        left = self._next() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            left -= weight
            if left < 0:
                return item
        return items[-1]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        out = list(items)
        for i in range(len(out) - 1, 0, -1):
            j = self.below(i + 1)
            out[i], out[j] = out[j], out[i]
        return out

    def some_of(self, items: Sequence[Item], count: int) -> list[Item]:
        """``count`` items in their order."""
        kept = sorted(self.shuffled(range(len(items)))[:count])
        return [items[i] for i in kept]
