"""Small graphs that are made from the code of a whole pass of Inductor: those that it changes, and their near misses.

Pattern entries say what they match, and graphs are derived from that (``derive/``).  Of other passes only the code
says what they look at: it is searched for as for a user's own pass (``firing/``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxmorph.core.units import Stage, Unit
from fxmorph.inductor.apply import apply_unit
from fxmorph.inductor.firing.budget import Budget
from fxmorph.inductor.firing.firing_search import FiringSearch
from fxmorph.inductor.firing.vocabulary import vocabulary
from fxmorph.inductor.inventory import Handle, listed, unwrapped
from fxmorph.inductor.stages import StageGraph, stages_of
from fxmorph.torchapi.optional_passes import Extra, NoopRule, Opted
from fxmorph.torchapi.pipelines import Step

#: The part that a graph is which is made from code, of a unit or of a user's pass.
MADE = "made"
#: Programs, and near misses, that are tried whatever the time, up to so many times the seconds: what is found is to
#: depend little on the machine.
FIRST, LIKELIEST, LENIENCE = 150, 100, 8.0
#: Where the code of Inductor's passes lies.
_HOME = "torch._inductor.fx_passes"


def has_code(unit: Unit) -> bool:
    """Whether graphs can be made from the unit: it runs in eager, and is a function rather than patterns."""
    return unit.eager and bool(_origin(listed(unit.name).handle))


def made_graphs(unit: Unit, seconds: float, device: str = "cpu") -> Iterator[StageGraph]:
    """Graphs of the unit's stage that it changes, on ``device``, for so many CPU seconds, the likeliest to be wrong
    first.
    """
    stage = stages_of(unit)
    at_aten = stage is not Stage.PRE_GRAD
    handle = listed(unit.name).handle
    words = vocabulary(_origin(handle), "" if isinstance(handle, NoopRule) else _HOME)
    search = FiringSearch(
        lambda built: apply_unit(unit, built.gm), words, (), at_aten, writes=stage is Stage.POST_GRAD, first=FIRST,
        likeliest=LIKELIEST, lenience=LENIENCE, device=device,
    )  # fmt: skip
    for attempt in search.attempts(Budget(seconds)):
        if attempt.applied is not None:
            yield StageGraph(stage, MADE, attempt.built.gm, attempt.built.inputs())


def _origin(handle: Handle) -> tuple[Any, ...]:
    """What the unit was written as; empty where it is patterns."""
    match handle:
        case Step():
            return () if handle.function is None else (unwrapped(handle.function),)
        case Extra():
            return (unwrapped(handle.function),)
        case NoopRule():
            return (*handle.operators, unwrapped(handle.condition))
        case Opted():
            return () if handle.made_by is None else (handle.made_by,)
    return ()
