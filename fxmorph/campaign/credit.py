"""Credit for seeds and rules whose programs made a unit of Inductor fire first: they are tried more often.

A mutational fuzzer's energy (AFLFast: Böhme et al., CCS 2016), with units of the compiler as coverage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fxmorph.model import Recipe
from fxmorph.rewriting.workbench import EXPOSE

#: So many of the rules that made a unit fire first, the latest, are drawn more often.
FAVOURED = 24


class Credit:
    """Grows as answers come in, in their order."""

    def __init__(self) -> None:
        #: How many programs each unit fired on.
        self.units: Counter[str] = Counter()
        #: How many units each seed's programs made fire first.
        self.seeds: Counter[str] = Counter()
        self._rules: list[str] = []

    @property
    def rules(self) -> tuple[str, ...]:
        """Rules of variants that made a unit fire first, the latest of them."""
        return tuple(self._rules[-FAVOURED:])

    def add(self, seed: str, recipe: str, fired: Iterable[str]) -> list[str]:
        """Count the units that a program made of ``seed`` by ``recipe`` (its text) made fire; returns the new ones."""
        fired = list(fired)
        new = [unit for unit in dict.fromkeys(fired) if unit not in self.units]
        self.units.update(fired)
        if new and seed:
            self.seeds[seed] += len(new)
            rules = [r.rule for r in Recipe.parse(recipe).rewrites] if recipe else []
            self._rules += [r for r in rules if r != EXPOSE and r not in self._rules]
        return new
