"""Parts of a model, and how far what they give is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Models are divided into so many parts, and no further where there would be more than the second number.
FEWEST, MOST = 8, 40


@dataclass(frozen=True)
class Part:
    """A module of a model as it is called first: its dotted name, "" of the model itself, and that of its class.

    ``within`` is the part that calls it, ``keywords`` the names of arguments given by name.
    """

    name: str
    kind: str
    within: str
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True)
class Errors:
    """How far the first results of a part are off an fp64 run of the model, as a part of the largest number there.

    NaN where that is no number, or the part gave nothing; both are 0 of a part that gives no floating-point numbers.
    """

    name: str
    eager: float
    compiled: float


def divided(parts: Sequence[Part]) -> list[Part]:
    """A model, whose ``parts`` are all that it calls, in a few parts, in order: those with most inside are divided."""
    inside: dict[str, list[Part]] = {}
    for part in parts:
        if part.name:
            inside.setdefault(part.within, []).append(part)
    chosen = inside.get("", [])
    while len(chosen) < FEWEST:
        can = [part for part in chosen if part.name in inside and len(chosen) + len(inside[part.name]) - 1 <= MOST]
        if not can:
            break
        largest = max(can, key=lambda part: _size(part.name, inside))
        at = chosen.index(largest)
        chosen = [*chosen[:at], *inside[largest.name], *chosen[at + 1 :]]
    return chosen


def _size(name: str, inside: Mapping[str, Sequence[Part]]) -> int:
    return 1 + sum(_size(part.name, inside) for part in inside.get(name, ()))
