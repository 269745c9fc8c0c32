"""Whether integer arithmetic of 32 or 64 bits may leave its type: C++ leaves the result open.

Narrower integers are computed in ``int`` and narrowed modulo 2^n, which is defined.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fxmorph.torchapi.dispatch import tensors_of

UNDEFINED_IN = (torch.int32, torch.int64)
#: |result| of elementwise operators is at most that of this function of the magnitudes of operands.
SUMS = frozenset({"add", "sub", "rsub", "subtract"})
PRODUCTS = frozenset({"mul", "multiply"})
NEGATIONS = frozenset({"neg", "abs", "negative"})
MATRIX_PRODUCTS = frozenset({"mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"})


def may_overflow(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the magnitudes of the operands, taken before the call, allow a result that int32 or int64 cannot hold.

    ``name`` is that of an ATen operator without overload.
    """
    base = name.removesuffix("_")
    if base not in KNOWN:
        return False
    tensors = tensors_of((args, kwargs))
    if not tensors or any(t.is_floating_point() or t.is_complex() for t in tensors):
        return False
    dtype = _computed_in(base, args, kwargs)
    if dtype not in UNDEFINED_IN:
        return False
    return _largest(base, args, kwargs) > torch.iinfo(dtype).max


def _computed_in(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype:
    if base in REDUCTIONS:
        wanted = kwargs.get("dtype")
        return wanted if isinstance(wanted, torch.dtype) else torch.int64
    if base in SUMS | PRODUCTS and isinstance(args[1], (torch.Tensor, int)):
        return torch.result_type(args[0], args[1])
    return args[0].dtype


def _largest(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    first = magnitude(args[0])
    if base in NEGATIONS:
        return first
    if base in SUMS:
        scale = abs(kwargs.get("alpha", args[2] if len(args) > 2 else 1))
        return first + math.ceil(scale) * magnitude(args[1])
    if base in PRODUCTS:
        return first * magnitude(args[1])
    if base in MATRIX_PRODUCTS:
        tensors = tensors_of(args)
        left, right = tensors[-2:]
        added = magnitude(tensors[0]) if len(tensors) > 2 else 0
        scales = math.ceil(abs(kwargs.get("alpha", 1))), math.ceil(abs(kwargs.get("beta", 1)))
        return scales[0] * magnitude(left) * magnitude(right) * max(left.shape[-1], 1) + scales[1] * added
    count = args[0].numel()
    if base in ("sum", "cumsum"):
        return first * count
    return int(min(first, 2**64) ** min(count, 64)) if first > 1 else first


REDUCTIONS = frozenset({"sum", "cumsum", "prod", "cumprod"})
KNOWN = SUMS | PRODUCTS | NEGATIONS | MATRIX_PRODUCTS | REDUCTIONS


def magnitude(value: Any) -> int:
    """The largest absolute value of an integer tensor or number."""
    if isinstance(value, torch.Tensor):
        if not value.numel():
            return 0
        return max(abs(int(value.min())), abs(int(value.max())))
    return abs(int(value))
