"""The bundled index of public issues about silent faults of torch.compile: facts and numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from math import log
from typing import Any

from fxmorph.triage.known.operator_names import plain_names
from fxmorph.triage.known.telling_words import telling_words

#: The day of the list: what it says of an issue was so then.
AS_OF = "2026-11-29"


@dataclass(frozen=True)
class PublicIssue:
    """One line of the index; "" or () where a fact is not known.

    ``operations`` are in plain form, ``stage`` is a stage of one compile, ``since`` the first release that has the
    fault and ``fixed`` the first that has the fix.  ``told`` are the telling words of title and ``words``.
    """

    number: int
    title: str
    operations: frozenset[str]
    units: tuple[str, ...]
    stage: str
    kinds: frozenset[str]
    devices: frozenset[str]
    bug_class: str
    since: str
    fixed: str
    words: tuple[str, ...]
    told: frozenset[str] = frozenset()

    @classmethod
    def of_line(cls, body: Mapping[str, Any]) -> PublicIssue:
        """Raises ``KeyError`` where a key is missing."""
        units = tuple(body["units"])
        return cls(
            body["issue"], body["title"], plain_names(body["operations"]) | operators_of(units), units, body["stage"],
            frozenset(body["kinds"]), frozenset(body["devices"]), body["class"], body["since"], body["fixed"],
            tuple(word.lower() for word in body["words"]), telling_words(body["title"], *body["words"]),
        )  # fmt: skip


def operators_of(units: Sequence[str]) -> frozenset[str]:
    """Operators that units are the decomposition or the lowering of."""
    return plain_names(unit.partition(".")[2] for unit in units if unit.startswith(("decomposition.", "lowering.")))


@dataclass(frozen=True)
class Index:
    """All issues; how rare an operator is says how much it tells."""

    issues: tuple[PublicIssue, ...]

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(name for issue in self.issues for name in issue.operations)

    @cached_property
    def _told(self) -> Counter[str]:
        return Counter(word for issue in self.issues for word in issue.told)

    def weight(self, operator: str) -> float:
        """Between 0 and 1: 1 for what no issue is about."""
        return self._rarity(self._counts[operator])

    def word_weight(self, word: str) -> float:
        """Between 0 and 1: 1 for what no issue says."""
        return self._rarity(self._told[word])

    def _rarity(self, count: int) -> float:
        return log((len(self.issues) + 2) / (count + 1)) / log(len(self.issues) + 2)


@cache
def load_index() -> Index:
    """The shipped index."""
    text = resources.files("fxmorph.triage.known").joinpath("public-issues.jsonl").read_text(encoding="utf-8")
    return Index(tuple(PublicIssue.of_line(json.loads(line)) for line in text.splitlines() if line.strip()))
