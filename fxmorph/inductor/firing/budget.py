"""How much is tried: for so long, or so much of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    """CPU seconds, and graphs: the first that is used up ends the search.

    With ``graphs`` alone all is the same on every machine.
    """

    seconds: float = math.inf
    graphs: float = math.inf
    began: float = field(default_factory=time.process_time)

    def part(self, share: float, tried: int) -> Budget:
        """So much, from now on, of what is left once so many graphs were tried."""
        spent = time.process_time() - self.began
        return Budget((self.seconds - spent) * share, (self.graphs - tried) * share)

    def lasts(self, tried: int, lenience: float = 1.0) -> bool:
        """Whether there is more once so many graphs were tried; seconds are so many times as many."""
        return tried < self.graphs and time.process_time() - self.began <= lenience * self.seconds
