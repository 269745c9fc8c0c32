"""A bound of clamp that the dtype cannot hold is refused, as in eager (pytorch/pytorch#195675)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, replaced_items

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.decomposition:clamp": ("525f6ab7279f",),
    "torch._inductor.lowering:register_pointwise": ("d123eead62f1",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    from torch._inductor.lowering import lowerings

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clamped(x: Any, *bounds: Any, **named: Any) -> Any:
            for bound in (*bounds, *named.values()):
                if isinstance(bound, (int, float)) and not _held(bound, x.get_dtype()):
                    used()
                    raise RuntimeError(f"{bound} cannot be held by {x.get_dtype()}")
            return original(x, *bounds, **named)

        return clamped

    aten = torch.ops.aten
    overloads = (aten.clamp_min.default, aten.clamp_max.default)
    return replaced_items(lowerings, {op: made(lowerings[op]) for op in overloads})


def _held(bound: float, dtype: torch.dtype) -> bool:
    if not dtype.is_floating_point or not math.isfinite(bound):
        return True
    return abs(bound) <= torch.finfo(dtype).max


MEND = Mend("clamp-bounds", "a bound that the dtype cannot hold is refused", TEXTS, _apply)
