"""Decompositions give the strides that eager's kernels give (pytorch/pytorch#198364)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, decomposed

#: The texts that the mend was tried with.
TEXTS = {
    "torch._decomp.decompositions:floor_divide": ("2d20e062cab5",),
    "torch._refs:addr": ("d72697c29f8c",),
    "torch._inductor.decomposition:put": ("9e43fcfe4c7b",),
}


def _apply(used: Used) -> AbstractContextManager[None]:
    aten = torch.ops.aten
    operators = (aten.floor_divide.default, aten.floor_divide.Scalar, aten.addr.default, aten.put.default)

    def made(original: Callable[..., Any], operator: Any) -> Callable[..., Any]:
        @functools.wraps(original)
        def like_eager(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if not isinstance(found, torch.Tensor):
                return found
            wanted = _strides(operator, args, kwargs)
            pairs = zip(found.stride(), wanted, found.shape, strict=True)
            if all(a == b for a, b, n in pairs if n > 1):
                return found
            used()
            return _laid_out(found, wanted)

        return like_eager

    return decomposed(made, *operators)


def _laid_out(t: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The values with their dimensions in the order of these strides, without gaps."""
    order = sorted(range(t.ndim), key=lambda d: -strides[d])
    return (
        t.permute(order).clone(memory_format=torch.contiguous_format).permute([order.index(d) for d in range(t.ndim)])
    )


def _strides(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """What eager's kernel gives for tensors of these shapes and strides."""

    def stood_in(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.empty_strided(_numbers(value.shape), _numbers(value.stride()), dtype=value.dtype)
        return made.zero_() if made.dtype is torch.int64 else made

    with torch.utils._python_dispatch._disable_current_modes():
        found: torch.Tensor = operator(*map(stood_in, args), **{k: stood_in(v) for k, v in kwargs.items()})
    return found.stride()


def _numbers(sizes: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in sizes)


MEND = Mend("decomposition-strides", "the result has the strides of eager's kernel", TEXTS, _apply)
