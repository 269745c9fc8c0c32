"""Operators that mean another number in each dtype: the next one there is, and the largest.

fp64 has a number between any two of float32, so that there the next one is none of float32's (pytorch 187340 takes it
in float32 for float16, where it is rounded away).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import UNIT


def in_own_dtype(call: OperatorCall) -> Callable[..., Any] | None:
    """What runs such a call in the lanes, as its own dtype has it; None for other operators and dtypes."""
    meant = _MEANT.get(call.name.removesuffix("_"))
    dtype = call.tensors[0].dtype if call.tensors else None
    if meant is None or dtype not in UNIT or any(t.dtype != dtype for t in call.tensors):
        return None

    def run(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        out = meant(dtype, x, *args, **kwargs)
        return x.copy_(out) if call.written else out

    return run


def _next_after(dtype: torch.dtype, x: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """As far from a number that rounding has moved as from the one that the dtype has there."""
    there = x.to(dtype)
    moved, own = torch.nextafter(there, bound.to(dtype)).to(x.dtype), there.to(x.dtype)
    return torch.where((own == x) | ~x.isfinite(), moved, x + (moved - own))


def _nan_to_num(
    dtype: torch.dtype, x: torch.Tensor, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None,
) -> torch.Tensor:  # fmt: skip
    limits = torch.finfo(dtype)
    return torch.nan_to_num(x, nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)


_MEANT: dict[str, Callable[..., torch.Tensor]] = {"nextafter": _next_after, "nan_to_num": _nan_to_num}
