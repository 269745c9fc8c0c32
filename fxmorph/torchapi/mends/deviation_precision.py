"""Variances and standard deviations of float32 are accumulated in float64 on the CPU (pytorch/pytorch#197089)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, decomposed, replaced_items

#: The texts that the mend was tried with.
TEXTS = {
    "torch._refs:std": ("edd39760b79e",),
    "torch._refs:std_mean": ("a3359921a095",),
    "torch._inductor.lowering:var_": ("82303be1beac",),
    "torch._inductor.lowering:var_mean": ("ba870309548f",),
}


@contextlib.contextmanager
def _apply(used: Used) -> Iterator[None]:
    from torch._inductor.lowering import lowerings, to_dtype

    aten = torch.ops.aten

    def of_tensors(original: Callable[..., Any], operator: Any) -> Callable[..., Any]:
        """The root is taken before the number is narrowed."""

        @functools.wraps(original)
        def deviation(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if x.device.type != "cpu" or x.dtype != torch.float32:
                return original(x, *args, **kwargs)
            used()
            found = original(x.double(), *args, **kwargs)
            return found.float() if isinstance(found, torch.Tensor) else tuple(t.float() for t in found)

        return deviation

    def of_boxes(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def variance(x: Any, *args: Any, **kwargs: Any) -> Any:
            if x.get_device().type != "cpu" or x.get_dtype() != torch.float32:
                return original(x, *args, **kwargs)
            used()
            found = original(to_dtype(x, torch.float64), *args, **kwargs)
            if isinstance(found, (list, tuple)):
                return tuple(to_dtype(t, torch.float32) for t in found)
            return to_dtype(found, torch.float32)

        return variance

    lowered = (aten.var.correction, aten.var_mean.correction)
    with (
        decomposed(of_tensors, aten.std.correction, aten.std_mean.correction),
        replaced_items(lowerings, {op: of_boxes(lowerings[op]) for op in lowered}),
    ):
        yield


MEND = Mend("deviation-precision", "sums of squares are accumulated in float64", TEXTS, _apply)
