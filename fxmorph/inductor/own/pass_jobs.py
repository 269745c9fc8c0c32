"""The jobs of the worker of ``fxmorph check-pass``."""

from __future__ import annotations

from dataclasses import dataclass

from fxmorph.model import Seed


@dataclass(frozen=True)
class LoadPass:
    """Load the pass; answers "", or in one line why it does not load."""


@dataclass(frozen=True)
class CheckSeed:
    """The pass on the graphs of a seed, in inference or training; answers a list of ``Pair``
    records, or in one line why the pass is none."""

    seed: Seed
    training: bool
