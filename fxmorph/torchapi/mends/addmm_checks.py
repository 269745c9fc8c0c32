"""Decomposed addmm refuses what eager refuses: a bias that does not fit the product, mixed dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from fxmorph.torchapi.mends.mend import Mend, Used, decomposed

#: The texts that the mend was tried with.
TEXTS = {
    "torch._inductor.decomposition:addmm": ("488461e81583",),
}
#: Of the bias and both factors, why eager refuses them; "" where it does not.
Refusal = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], str]


def _refusing(refusal: Refusal) -> Callable[[Used], AbstractContextManager[None]]:
    def apply(used: Used) -> AbstractContextManager[None]:
        def made(original: Callable[..., Any], operator: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                why = refusal(bias, a, b)
                if why:
                    used()
                    raise RuntimeError(why)
                return original(bias, a, b, *args, **kwargs)

            return addmm

        return decomposed(made, torch.ops.aten.addmm.default)

    return apply


def _too_large(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    wanted = (a.shape[0], b.shape[1])
    fits = bias.ndim <= 2 and all(n in (1, m) for n, m in zip(bias.shape[::-1], wanted[::-1], strict=False))
    return "" if fits else f"a bias of shape {tuple(bias.shape)} does not expand to {tuple(wanted)}"


def _mixed(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    return "" if a.dtype == b.dtype else f"factors of {a.dtype} and {b.dtype}"


BIAS = Mend("addmm-bias", "the bias of addmm must expand to the product", TEXTS, _refusing(_too_large))
DTYPES = Mend("addmm-dtypes", "the factors of addmm must have one dtype", TEXTS, _refusing(_mixed))
