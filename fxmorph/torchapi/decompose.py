"""Decompositions of operators into simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload


@cache
def _core() -> dict[Any, Callable[..., Any]]:
    return dict(core_aten_decompositions().items())


def decomposition(overload: OpOverload) -> Callable[..., Any] | None:
    """How PyTorch computes an operator by others; None where it does not say."""
    found = decomposition_table.get(overload)
    return found if found is not None else _core().get(overload)
