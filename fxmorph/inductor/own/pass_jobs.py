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

    ``how`` says how it was made to fire first, ``why_not`` what was tried where it never did, or removed nothing but
    dead code that it does not name; ``left_out`` counts
    graphs that the pass was not given, ``patterns`` say what was shown of patterns and replacements themselves.
    """

    pairs: tuple[Pair, ...]
    tried: int
    done: bool
    how: str = ""
    why_not: str = ""
    left_out: int = 0
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckSeed:
    """The pass on the graphs of a seed at a stage, in inference or training; answers a list of ``Pair``
    records, or in one line why the pass is none."""

    seed: Seed
    training: bool
    stage: str = ""
