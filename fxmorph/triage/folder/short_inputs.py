"""Expressions for tensors like a given one, as a person would write them: plainest first, some with other values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from fxmorph.programs.inputs import dtype_name

#: Elements that are written out.
MOST_WRITTEN = 8


def short_expressions(value: Any) -> Iterator[str]:
    """Expressions that make tensors of the value's dtype, shape and, of the later ones, strides; none for no tensor."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_quantized:
        return
    ending = ", requires_grad=True" if value.requires_grad else ""
    device = "" if value.device.type == "cpu" else f", device={value.device.type!r}"
    shape, dtype = tuple(value.shape), value.dtype
    dense = list(_filled(value.detach().contiguous(), shape, dtype, device, ending))
    yield from dense
    if value.ndim >= 2 and value.mT.is_contiguous() and not value.is_contiguous():
        for made in _filled(value.detach().mT.contiguous(), tuple(value.mT.shape), dtype, device, ""):
            yield made + ".mT" + (".requires_grad_()" if value.requires_grad else "")


def _filled(t: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: str, ending: str) -> Iterator[str]:
    """Of contiguous tensors."""
    kind = "" if dtype == torch.get_default_dtype() else f", dtype=torch.{dtype_name(dtype)}"
    sizes = ", ".join(map(str, shape)) or "()"
    written = _written(t, f"{'' if dtype in (torch.int64, torch.bool) else kind}{device}{ending}")
    if dtype == torch.bool or not dtype.is_floating_point:
        if dtype == torch.int64 and t.ndim > 1 and torch.equal(t.flatten(), torch.arange(t.numel(), device=t.device)):
            yield _counted(t, shape, "", "", device, ending)
        yield from written  # as they are: they may be indices or masks
        if dtype == torch.bool:
            yield f"torch.ones({sizes}{kind}{device}{ending})"
        elif not dtype.is_complex:
            yield _counted(t, shape, "", kind if dtype != torch.int64 else "", device, ending)
            yield f"torch.zeros({sizes}{kind}{device}{ending})"
        else:
            yield f"torch.ones({sizes}{kind}{device}{ending})"
        return
    if t.ndim == 0:
        yield f"torch.tensor(1.0{kind}{device}{ending})"
    else:
        yield f"torch.ones({sizes}{kind}{device}{ending})"
        if t.numel() > 1:
            yield _counted(t, shape, ".0", kind, device, ending)
    yield from written
    yield f"torch.randn({sizes}{kind}{device}{ending})"


def _counted(t: torch.Tensor, shape: tuple[int, ...], point: str, kind: str, device: str, ending: str) -> str:
    reshaped = f".reshape({', '.join(map(str, shape))})" if t.ndim != 1 else ""
    if not reshaped:
        return f"torch.arange({t.numel()}{point}{kind}{device}{ending})"
    return f"torch.arange({t.numel()}{point}{kind}{device}){reshaped}" + (".requires_grad_()" if ending else "")


def _written(t: torch.Tensor, ending: str) -> list[str]:
    """The values themselves, where they are few and short."""
    if not 0 < t.numel() <= MOST_WRITTEN:
        return []
    if t.is_complex() or (t.is_floating_point() and not t.isfinite().all()):
        return []
    texts = [repr(t.tolist())]
    if t.is_floating_point():
        texts = [repr(_rounded(t.tolist(), digits)) for digits in (1, 2)] + texts
    return [f"torch.tensor({text}{ending})" for text in texts if len(text) <= 48]


def _rounded(values: Any, digits: int) -> Any:
    """Numbers, in lists or alone, with so many digits."""
    return [_rounded(v, digits) for v in values] if isinstance(values, list) else float(f"{values:.{digits}g}")
