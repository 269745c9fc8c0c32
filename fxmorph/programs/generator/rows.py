"""What a row of the table of operators is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fxmorph.programs.generator.draft import Draft


@dataclass(frozen=True)
class Row:
    """One operator or a few that belong together; ``draw`` adds it to a program, or raises ``NoFit``."""

    name: str
    draw: Callable[[Draft], None]
    weight: float = 1.0


class Rows(list[Row]):
    """Rows of one family, filled by a decorator."""

    def add(self, name: str, weight: float = 1.0) -> Callable[[Callable[[Draft], None]], Callable[[Draft], None]]:
        def listed(draw: Callable[[Draft], None]) -> Callable[[Draft], None]:
            self.append(Row(name, draw, weight))
            return draw

        return listed
