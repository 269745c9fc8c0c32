"""The standard deviation of very small or large float32 neither vanishes nor overflows on the CPU.

pytorch/pytorch#197089: eager accumulates in float64.  Here rows are brought to magnitude 1 and the result back, so that
the float32 kernel stays the one that is tried.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, decomposed

#: The texts that the mend was tried with.
TEXTS = {
    "torch._refs:std": ("edd39760b79e",),
    "torch._refs:std_mean": ("a3359921a095",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    def made(original: Callable[..., Any], operator: Any) -> Callable[..., Any]:
        @functools.wraps(original)
        def deviation(x: torch.Tensor, dim: Any = None, *, keepdim: bool = False, **kwargs: Any) -> Any:
            if x.device.type != "cpu" or x.dtype != torch.float32:
                return original(x, dim, keepdim=keepdim, **kwargs)
            used()
            dims = list(range(x.ndim)) if dim is None or not len(dim) else dim
            scale = _magnitude(x, dims)
            found = original(x / scale, dim, keepdim=keepdim, **kwargs)
            back = scale if keepdim else scale.squeeze(dims)
            return found * back if isinstance(found, torch.Tensor) else tuple(t * back for t in found)

        return deviation

    return decomposed(made, torch.ops.aten.std.correction, torch.ops.aten.std_mean.correction)


def _magnitude(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """A power of two near the largest of each row; 1 where that is 0 or no number."""
    largest = x.abs().amax(dims, keepdim=True)
    ordinary = (largest > 0) & (largest < float("inf"))
    return torch.exp2(torch.floor(torch.log2(torch.where(ordinary, largest, 1.0))))


MEND = Mend("deviation-precision", "rows of extreme magnitude are scaled before squares are summed", TEXTS, _apply)
