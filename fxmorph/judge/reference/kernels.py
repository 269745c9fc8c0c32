"""Kernels of several roundings as the elementary operators that they are made of.

Written here, and never taken from PyTorch's decompositions: those are what Inductor compiles.  A wrong
one would be wrong in the reference too, and what it is off by would count as rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fxmorph.judge.reference.losses import (
    binary_cross_entropy,
    huber_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    soft_margin_loss_backward,
)
from fxmorph.judge.reference.norms import (
    batch_norm,
    batch_norm_backward,
    batch_norm_backward_of_cudnn,
    batch_norm_in_use,
    batch_norm_of_cudnn,
    batch_norm_of_its_own,
    batch_norm_with_update,
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
    rms_norm,
)
from fxmorph.judge.reference.welford import ExactMean, RunningMean
from fxmorph.torchapi.dispatch import tree_leaves, tree_map

#: How far steps and kernel may differ in fp64, relative to the largest value: what either rounds, and nothing that
#: would show among roundings of float32.
STEPS_TOLERANCE = 1e-9


def variance(
    running: RunningMean, name: str, x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    correction: Any = None,
) -> Any:  # fmt: skip
    """``var``, ``std``, ``var_mean`` and ``std_mean``: squares around a mean, which may be a running one (Welford)."""
    if isinstance(dim, bool):  # the overload without dimensions
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dims = list(range(x.ndim)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
    centre = x.mean(dims, keepdim=True)
    mean = centre if keepdim else centre.squeeze(dims)
    terms = x.numel() / max(mean.numel(), 1)
    away = x - running.seen(centre.expand_as(x), terms)
    squares = (away.abs() if x.is_complex() else away).square().sum(dims, keepdim=keepdim)
    if not x.is_complex():
        squares, mean = running.drifted(x, dims, squares, mean)
    out = squares / max(terms - correction, 0.0) if terms > correction else squares / 0.0
    out = out.sqrt() if name.startswith("std") else out
    return (out, mean) if name.endswith("mean") else out


def _below_peak(x: Tensor, dim: int) -> Tensor:
    return x - x.amax(dim, keepdim=True)


def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``_softmax``."""
    weights = _below_peak(x, dim).exp()
    return weights / weights.sum(dim, keepdim=True)


def safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """``_safe_softmax``, of the attention that is no kernel: a row that is masked throughout has no weights."""
    return softmax(x, dim, False).masked_fill((x == -torch.inf).all(dim, keepdim=True), 0.0)


def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``_log_softmax``."""
    below = _below_peak(x, dim)
    return below - below.exp().sum(dim, keepdim=True).log()


def softmax_backward(grad: Tensor, out: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    """``_softmax_backward_data``."""
    product = grad * out
    return product - out * product.sum(dim, keepdim=True)


def log_softmax_backward(grad: Tensor, out: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    """``_log_softmax_backward_data``."""
    return grad - out.exp() * grad.sum(dim, keepdim=True)


def logsumexp(x: Tensor, dim: list[int], keepdim: bool = False) -> Tensor:
    """``logsumexp``; a peak that is infinite is not taken off."""
    peak = x.real.amax(dim, keepdim=True) if x.is_complex() else x.amax(dim, keepdim=True)
    peak = peak.masked_fill(peak.isinf(), 0.0)
    out = (x - peak).exp().sum(dim, keepdim=True).log() + peak
    return out if keepdim else out.squeeze(dim)


def vector_norm(
    x: Tensor, order: float | None = 2, dim: list[int] | None = None, keepdim: bool = False, *,
    dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """``linalg_vector_norm`` and ``norm``, whose order may be None."""
    order = 2 if order is None else order
    dims = dim or list(range(x.ndim))
    x = x if dtype is None else x.to(dtype)
    sizes = x.abs() if x.is_complex() or order % 2 else x
    if order == 0:
        return (sizes != 0).sum(dims, keepdim=keepdim).to(sizes.dtype)
    if math.isinf(order):
        return x.abs().amax(dims, keepdim=keepdim) if order > 0 else x.abs().amin(dims, keepdim=keepdim)
    return sizes.pow(order).sum(dims, keepdim=keepdim).pow(1.0 / order)


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


#: The kernels of attention.
ATTENTION: dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
}
#: All that are written here; variances are apart, since their running mean is the caller's.
WRITTEN: dict[str, Callable[..., Any]] = ATTENTION | {
    "_softmax": softmax,
    "_safe_softmax": safe_softmax,
    "_log_softmax": log_softmax,
    "_softmax_backward_data": softmax_backward,
    "_log_softmax_backward_data": log_softmax_backward,
    "logsumexp": logsumexp,
    "norm": vector_norm,
    "linalg_vector_norm": vector_norm,
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_backward,
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_backward,
    "native_batch_norm": batch_norm,
    "native_batch_norm_backward": batch_norm_backward,
    "batch_norm_backward": batch_norm_backward,
    "_native_batch_norm_legit": batch_norm_of_its_own,
    "_native_batch_norm_legit_no_training": batch_norm_in_use,
    "_batch_norm_with_update": batch_norm_with_update,
    "cudnn_batch_norm": batch_norm_of_cudnn,
    "cudnn_batch_norm_backward": batch_norm_backward_of_cudnn,
    "_fused_rms_norm": rms_norm,
    "nll_loss_forward": nll_loss,
    "binary_cross_entropy": binary_cross_entropy,
    "mse_loss": mse_loss,
    "huber_loss": huber_loss,
    "smooth_l1_loss": smooth_l1_loss,
}
#: Functions of numbers that are numbers, where float64 kernels leave the range on the way: what all lanes run instead.
NEVER_LEAVING: dict[str, Callable[..., Any]] = {
    "soft_margin_loss": soft_margin_loss,
    "soft_margin_loss_backward": soft_margin_loss_backward,
}
#: Kernels of the form sum((x - mean)^2) / n.
VARIANCES = frozenset({"var", "std", "var_mean", "std_mean"})


def kernel_steps(running: RunningMean, name: str, *args: Any, **kwargs: Any) -> Any:
    """What a kernel of :data:`WRITTEN` or :data:`VARIANCES` gives, by elementary operators."""
    return variance(running, name, *args, **kwargs) if name in VARIANCES else WRITTEN[name](*args, **kwargs)


def same_over_the_reals(native: Callable[..., Any], name: str, args: Any, kwargs: Any) -> bool:
    """Whether the steps give and write what the kernel ``native`` does, on these arguments in fp64.

    A release's kernel may mean something else by them, or take what the steps do not.
    """

    def run(fn: Callable[..., Any]) -> list[Any]:
        mine = tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, (args, kwargs))
        leaves = [*tree_leaves(fn(*mine[0], **mine[1])), *tree_leaves(mine)]
        return [t for t in leaves if not _is_kept(t)]

    try:
        stepped = run(lambda *a, **k: kernel_steps(ExactMean(), name, *a, **k))
    except Exception:
        return False
    mine = run(native)
    return len(mine) == len(stepped) and all(map(_alike, mine, stepped))


def _is_kept(leaf: Any) -> bool:
    """Whether it is what cuDNN keeps for itself, bytes that mean nothing to others."""
    return isinstance(leaf, Tensor) and leaf.dtype is torch.uint8


def _alike(native: Any, stepped: Any) -> bool:
    """What is no tensor is a gradient that nobody asked for."""
    if not isinstance(native, Tensor):
        return True
    if not isinstance(stepped, Tensor) or native.shape != stepped.shape:
        return False
    if not native.numel():
        return True
    peak = float(native.abs().nan_to_num(nan=0.0, posinf=0.0).max())
    return torch.allclose(native, stepped, rtol=0, atol=STEPS_TOLERANCE * peak, equal_nan=True)
