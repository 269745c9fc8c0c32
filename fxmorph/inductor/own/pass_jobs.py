"""The jobs of the worker of ``fxmorph check-pass``."""

from __future__ import annotations

from dataclasses import dataclass

from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Seed


@dataclass(frozen=True)
class LoadPass:
    """Load the pass; answers "", or in one line why it does not load."""


@dataclass(frozen=True)
class CheckMade:
    """The pass on graphs that are made from it, for so many seconds in all; answers the next :class:`MadeBatch`."""

    seconds: float


@dataclass(frozen=True)
class MadeBatch:
    """Records of graphs on which the pass fired, and how many were tried since the beginning; ``done`` if all were.

    ``how`` says how it was made to fire first, ``why_not`` what was tried where it never did.
    """

    pairs: tuple[Pair, ...]
    tried: int
    done: bool
    how: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class CheckSeed:
    """The pass on the graphs of a seed at a stage, in inference or training; answers a list of ``Pair``
    records, or in one line why the pass is none."""

    seed: Seed
    training: bool
    stage: str = ""
