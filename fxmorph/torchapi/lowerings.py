"""How Inductor lowers each operator: by a function of its own, or by a call of the operator itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._ops import HigherOrderOperator, OpOverload


@dataclass(frozen=True)
class Lowering:
    """``fallback``: the compiled program calls the operator (an extern kernel)."""

    operator: Any
    function: Callable[..., Any]
    fallback: bool


def lowerings() -> list[Lowering]:
    """Every overload and higher-order operator that Inductor lowers, by name."""
    from torch._inductor import lowering

    fallbacks = getattr(lowering, "fallbacks", ())
    found = [
        Lowering(operator, function, operator in fallbacks)
        for operator, function in lowering.lowerings.items()
        if isinstance(operator, (OpOverload, HigherOrderOperator))
    ]
    return sorted(found, key=lambda each: str(each.operator))
