"""Layer, group, batch and root-mean-square norms, and their gradients, as elementary operators.

Arguments and results are those of the kernels, gradients that are not asked for None.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

#: Of a gradient kernel: for the input, the weight and the bias.
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def _moments(x: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor]:
    """The mean and one over the standard deviation, dimensions kept."""
    variance, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    return mean, (variance + eps).rsqrt()


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _summed(x: Tensor, dims: list[int]) -> Tensor:
    """A sum that over no dimensions is none: ``Tensor.sum`` takes those for all."""
    return x.sum(dims) if dims else x.clone()


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``native_layer_norm``."""
    mean, rstd = _moments(x, list(range(x.ndim - len(shape), x.ndim)), eps)
    return _scaled((x - mean) * rstd, weight, bias), mean, rstd


def layer_norm_backward(
    grad: Tensor, x: Tensor, shape: Sequence[int], mean: Tensor, rstd: Tensor, weight: Tensor | None,
    bias: Tensor | None, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    """``native_layer_norm_backward``."""
    outer, inner = list(range(x.ndim - len(shape))), list(range(x.ndim - len(shape), x.ndim))
    hat = (x - mean) * rstd
    into_hat = _scaled(grad, weight, None)
    terms = hat[(0,) * len(outer)].numel()
    away = into_hat * terms - into_hat.sum(inner, keepdim=True) - hat * (into_hat * hat).sum(inner, keepdim=True)
    return (
        rstd / terms * away if wanted[0] else None,
        _summed(grad * hat, outer) if wanted[1] and weight is not None else None,
        _summed(grad, outer) if wanted[2] and bias is not None else None,
    )


def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None) -> tuple[Tensor, Tensor]:
    """``_fused_rms_norm``."""
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    rrms = (x.pow(2).mean(list(range(x.ndim - len(shape), x.ndim)), keepdim=True) + eps).rsqrt()
    return _scaled(x * rrms, weight, None), rrms


def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, samples: int, channels: int, size: int, groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``native_group_norm``; with a weight, the CPU's kernel computes x * scale + shift."""
    grouped = x.reshape(samples, groups, channels // groups, size)
    mean, rstd = _moments(grouped, [2, 3], eps)
    by_group = (1, groups, channels // groups, 1)
    weights, biases = (None if t is None else t.reshape(by_group) for t in (weight, bias))
    if x.device.type == "cpu" and weights is not None:
        scale = rstd * weights
        shift = _scaled(-mean * scale, None, biases)
        out = grouped * scale + shift
    else:
        out = _scaled((grouped - mean) * rstd, weights, biases)
    return out.reshape(x.shape), mean.reshape(samples, groups), rstd.reshape(samples, groups)


def group_norm_backward(
    grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, samples: int, channels: int, size: int,
    groups: int, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    """``native_group_norm_backward``."""
    grouped = (samples, groups, channels // groups)
    products = (grad * x).reshape(*grouped, size).sum(3)
    sums = grad.reshape(*grouped, size).sum(3)
    weights = torch.ones_like(sums[:1]) if weight is None else weight.reshape(1, *grouped[1:])
    into_x = into_weight = None
    if wanted[0]:
        part = 1.0 / (size * grouped[2])
        of_products, of_sums = (products * weights).sum(2), (sums * weights).sum(2)
        slope = (of_sums * mean - of_products) * rstd * rstd * rstd * part
        shift = -slope * mean - of_sums * rstd * part
        scale = (rstd[:, :, None] * weights)[..., None]
        into_x = grad.reshape(*grouped, size) * scale + x.reshape(*grouped, size) * slope[..., None, None]
        into_x = (into_x + shift[..., None, None]).reshape(x.shape)
    if wanted[1]:
        into_weight = ((products - sums * mean[:, :, None]) * rstd[:, :, None]).sum(0).reshape(channels)
    return into_x, into_weight, sums.sum(0).reshape(channels) if wanted[2] else None


def _by_channel(t: Tensor, x: Tensor) -> Tensor:
    return t.reshape(-1, *(1,) * (x.ndim - 2))


def _other_dims(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``native_batch_norm`` and ``_native_batch_norm_legit``; writes the running statistics in training."""
    weights, biases = (None if t is None else _by_channel(t, x) for t in (weight, bias))
    if not training:
        assert running_mean is not None and running_var is not None
        rstd = 1 / (running_var + eps).sqrt()
        out = _scaled((x - _by_channel(running_mean, x)) * _by_channel(rstd, x), weights, biases)
        # On the CPU nothing is saved.
        saved = (x.new_zeros(0), x.new_zeros(0)) if x.device.type == "cpu" else (running_mean.clone(), rstd)
        return out, *saved
    variance, mean = torch.var_mean(x, _other_dims(x), correction=0, keepdim=True)
    rstd = (variance + eps).rsqrt()
    flat = mean.flatten()
    if running_mean is not None:
        running_mean.copy_(momentum * flat + (1 - momentum) * running_mean)
    if running_var is not None:
        terms = x.numel() / x.shape[1]
        running_var.copy_(momentum * (variance.flatten() * (terms / (terms - 1))) + (1 - momentum) * running_var)
    return _scaled((x - mean) * rstd, weights, biases), flat, rstd.flatten()


def batch_norm_of_its_own(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: bool | float | Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """``_native_batch_norm_legit``, whose overload ``no_stats`` has no running statistics."""
    statistics: tuple[bool | float | Tensor | None, ...] = () if len(rest) > 3 else (None, None)
    return batch_norm(x, weight, bias, *statistics, *rest)  # type: ignore[arg-type]


def batch_norm_in_use(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``_native_batch_norm_legit_no_training``."""
    return batch_norm(x, weight, bias, mean, var, False, momentum, eps)


def batch_norm_with_update(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``_batch_norm_with_update``."""
    return batch_norm_of_cudnn(x, weight, bias, mean, var, True, momentum, eps)


def batch_norm_of_cudnn(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``cudnn_batch_norm``, which saves nothing in use; last bytes that it keeps for its backward pass, here none."""
    out, *saved = batch_norm(x, weight, bias, mean, var, training, momentum, eps)
    saved_mean, saved_rstd = saved if training else (x.new_zeros(0), x.new_zeros(0))
    return out, saved_mean, saved_rstd, torch.zeros(0, dtype=torch.uint8, device=x.device)


def batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    saved_mean: Tensor | None, saved_rstd: Tensor | None, training: bool, eps: float, wanted: Sequence[bool],
    kept: Tensor | None = None,
) -> Gradients:  # fmt: skip
    """``native_batch_norm_backward``, and ``batch_norm_backward``, which has ``kept``."""
    if training:
        assert saved_mean is not None and saved_rstd is not None
        mean, rstd = saved_mean, saved_rstd
    else:
        assert running_mean is not None and running_var is not None
        mean, rstd = running_mean, (running_var + eps).rsqrt()
    part = x.shape[1] / x.numel()
    away = x - _by_channel(mean, x)
    sums, products = grad.sum(_other_dims(x)), (grad * away).sum(_other_dims(x))
    scale = _by_channel(_scaled(rstd, weight, None), x)
    into_x = None
    if wanted[0] and training:
        along = away * _by_channel(products * part * (rstd * rstd), x)
        into_x = (grad - along - _by_channel(sums * part, x)) * scale
    elif wanted[0]:
        into_x = grad * scale
    return into_x, products * rstd if wanted[1] else None, sums if wanted[2] else None


def batch_norm_backward_of_cudnn(
    x: Tensor, grad: Tensor, weight: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    saved_mean: Tensor, saved_rstd: Tensor, eps: float, kept: Tensor | None = None,
) -> Gradients:  # fmt: skip
    """``cudnn_batch_norm_backward``, of training alone."""
    saved = running_mean, running_var, saved_mean, saved_rstd
    return batch_norm_backward(grad, x, weight, *saved, True, eps, (True, True, True))
