"""What workers are asked of what seeds reach, and what they answer; imported where no torch is."""

from __future__ import annotations

from dataclasses import dataclass

from fxmorph.model import Seed


@dataclass(frozen=True)
class MeasureSeed:
    """Job: what a seed reaches; answers a ``Reach``, or an :class:`Unmeasured`."""

    seed: Seed


@dataclass(frozen=True)
class ListFeatures:
    """Job: the functions of torch and the ATen overloads that there are; answers ``Feature`` s."""


@dataclass(frozen=True)
class Unmeasured:
    """Why it is not known what a seed reaches; ``elsewhere``: a machine of another kind would know."""

    reason: str
    elsewhere: bool = False
