"""Which part of a campaign a run does: one of several shards, each on a machine of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` (from 1) ``of`` so many."""

    number: int
    of: int

    @staticmethod
    def parse(text: str) -> Shard:
        """From ``2/4``; raises ``ValueError``."""
        found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if found is None:
            raise ValueError(f"want i/n, as 2/4, got {text!r}")
        shard = Shard(int(found[1]), int(found[2]))
        if not 1 <= shard.number <= shard.of:
            raise ValueError(f"want a shard from 1/{shard.of} to {shard.of}/{shard.of}, got {text!r}")
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def takes(self, place: int) -> bool:
        """Whether what has this place (from 0) in an order of the campaign is this shard's."""
        return place % self.of == self.number - 1
