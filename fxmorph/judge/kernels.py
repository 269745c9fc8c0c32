"""Kernels of several roundings as the elementary operators that they are made of.

What PyTorch's own decompositions leave out: variances, and attention on the CPU with its
logsumexp and gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Gives each element of a mean over n terms, expanded, in a state of its own.
Running = Callable[[Tensor, float], Tensor]


def variance(
    running: Running, name: str, x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    correction: Any = None,
) -> Any:  # fmt: skip
    """``var``, ``std``, ``var_mean`` and ``std_mean``: squares around a mean, which may be a running one (Welford)."""
    if isinstance(dim, bool):  # the overload without dimensions
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dims = list(range(x.ndim)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    mean = x.mean(dims, keepdim=True)
    terms = x.numel() / max(mean.numel(), 1)
    away = x - running(mean.expand_as(x), terms)
    squares = (away.abs() if x.is_complex() else away).square().sum(dims, keepdim=keepdim)
    out = squares / max(terms - correction, 0.0) if terms > correction else squares / 0.0
    out = out.sqrt() if name.startswith("std") else out
    return (out, mean.reshape(out.shape)) if name.endswith("mean") else out


def _scores(query: Tensor, key: Tensor, is_causal: bool, attn_mask: Tensor | None, scale: float | None) -> Tensor:
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    out = (query @ key.mT) * scale
    if is_causal:
        keep = torch.ones(out.shape[-2:], dtype=torch.bool, device=out.device).tril()
        out = out.masked_fill(~keep, float("-inf"))
    if attn_mask is None:
        return out
    return out.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else out + attn_mask


def _for_each_head(query: Tensor, shared: Tensor) -> Tensor:
    groups = query.shape[1] // shared.shape[1]
    return shared if groups == 1 else shared.repeat_interleave(groups, 1)


def attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``_scaled_dot_product_flash_attention_for_cpu``: values and the logsumexp of the scores."""
    scores = _scores(query, _for_each_head(query, key), is_causal, attn_mask, scale)
    weights = torch.ops.aten._softmax(scores, -1, False)
    return weights @ _for_each_head(query, value), scores.logsumexp(-1)


def attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``_scaled_dot_product_flash_attention_for_cpu_backward``."""
    keys, values = _for_each_head(query, key), _for_each_head(query, value)
    weights = (_scores(query, keys, is_causal, attn_mask, scale) - logsumexp.unsqueeze(-1)).exp()
    into_weights = grad @ values.mT - (grad * out).sum(-1, keepdim=True)
    into_scores = weights * into_weights * (query.shape[-1] ** -0.5 if scale is None else scale)

    def gathered(t: Tensor, like: Tensor) -> Tensor:
        return t if t.shape == like.shape else t.unflatten(1, (like.shape[1], -1)).sum(2)

    return (
        into_scores @ keys,
        gathered(into_scores.mT @ query, key),
        gathered(weights.mT @ grad, value),
    )


#: Kernels written here; variances are apart, since their running mean is the caller's.
WRITTEN: dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
}
#: Kernels of the form sum((x - mean)^2) / n.
VARIANCES = frozenset({"var", "std", "var_mean", "std_mean"})
