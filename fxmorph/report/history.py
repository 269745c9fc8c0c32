"""What nights say of findings by cause: since when each shows, until when, and which night changed that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from fxmorph.core.lifetime import GONE, STILL_THERE
from fxmorph.core.nights import Night
from fxmorph.model import Finding
from fxmorph.report.collect import Card, Report, Run


@dataclass(frozen=True)
class Sighting:
    """What was ``shown`` of a cause, ``still there`` or ``gone``, under a torch; ``at`` is in seconds since 1970.

    ``night`` is the number of the night, None of a run that is no night's.
    """

    at: float
    torch: str
    shown: str
    night: int | None = None


class Turn(StrEnum):
    """What a night says of a cause that nights before it did not."""

    NEW = "new"
    BACK = "back"  #: it was gone before
    FIXED = "fixed"


@dataclass(frozen=True)
class Cause:
    """A confirmed finding with its sightings, oldest first."""

    card: Card
    sightings: tuple[Sighting, ...]

    @property
    def finding(self) -> Finding:
        return self.card.finding

    @cached_property
    def _shows(self) -> tuple[Sighting, ...]:
        return tuple(sighting for sighting in self.sightings if sighting.shown == STILL_THERE)

    @property
    def first_seen(self) -> Sighting:
        return self._shows[0]

    @property
    def last_seen(self) -> Sighting:
        return self._shows[-1]

    @property
    def fixed_in(self) -> Sighting | None:
        """The first that shows it gone since it was seen last."""
        later = self.sightings[self.sightings.index(self.last_seen) + 1 :]
        return next((sighting for sighting in later if sighting.shown == GONE), None)

    def turns(self) -> list[tuple[Sighting, Turn]]:
        """Where what is shown changes."""
        words = {STILL_THERE: Turn.BACK, GONE: Turn.FIXED}
        changes = [after for before, after in pairwise(self.sightings) if before.shown != after.shown]
        return [(self.first_seen, Turn.NEW), *((sighting, words[sighting.shown]) for sighting in changes)]


@dataclass(frozen=True)
class NightRow:
    """A night in numbers: the causes that ``turned``, and how many it saw (``there``)."""

    night: Night
    there: int
    turned: Mapping[Turn, tuple[Cause, ...]]


def causes(report: Report, nights: Sequence[Night]) -> list[Cause]:
    """Every confirmed finding of the report's runs and what nights showed of it."""
    of_run = {run_id: night for night in nights for run_id in night.runs}
    replayed: dict[str, list[tuple[Night, str]]] = {}
    for night in nights:
        for id, word in night.replayed:
            replayed.setdefault(id, []).append((night, word))
    runs = {run.id: run for run in report.runs}
    return [
        Cause(card, _sightings(replayed.get(card.finding.id, ()), [runs[id] for id in card.runs], of_run))
        for card in report.cards
        if card.finding.confirmed
    ]


def _sightings(
    replayed: Iterable[tuple[Night, str]], found_by: Iterable[Run], of_run: Mapping[str, Night]
) -> tuple[Sighting, ...]:
    """One a night at most: that its runs found it counts more than what a repro showed."""
    shown: dict[int | str, Sighting] = {}
    for night, word in replayed:
        if word in (STILL_THERE, GONE):
            shown[night.number] = Sighting(night.started, night.torch, word, night.number)
    for run in found_by:
        of = of_run.get(run.id)
        if of is None:
            shown[run.id] = Sighting(run.started.timestamp(), run.torch, STILL_THERE)
        else:
            shown[of.number] = Sighting(of.started, of.torch, STILL_THERE, of.number)
    return tuple(sorted(shown.values(), key=lambda sighting: sighting.at))


def night_rows(causes: Sequence[Cause], nights: Iterable[Night]) -> list[NightRow]:
    """The nights, newest first."""
    there = Counter(s.night for cause in causes for s in cause.sightings if s.shown == STILL_THERE)
    turned: dict[int | None, dict[Turn, list[Cause]]] = {}
    for cause in causes:
        for sighting, turn in cause.turns():
            turned.setdefault(sighting.night, {}).setdefault(turn, []).append(cause)
    return [
        NightRow(
            night,
            there[night.number],
            {turn: tuple(turned.get(night.number, {}).get(turn, ())) for turn in Turn},
        )
        for night in sorted(nights, key=lambda night: -night.number)
    ]
