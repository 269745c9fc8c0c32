"""Losses as elementary operators: arguments and results are those of the kernels."""

from __future__ import annotations

import torch
from torch import Tensor

#: How kernels number what becomes of the losses of the elements (0: nothing).
MEAN, SUM = 1, 2
#: The least logarithm that binary cross entropy takes.
LEAST_LOG = -100.0


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


def nll_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int) -> tuple[Tensor, Tensor]:
    """``nll_loss_forward``: the loss, and the weight of all targets."""
    classes = x.ndim - 1
    counts = target != ignored
    at = torch.where(counts, target, 0)
    chosen = (x if weight is None else x * weight).gather(classes, at.unsqueeze(classes)).squeeze(classes)
    loss = torch.where(counts, -chosen, 0.0)
    if reduction not in (MEAN, SUM) and x.ndim > 1:
        return loss, x.new_zeros(())
    total = counts.sum().to(x.dtype) if weight is None else torch.where(counts, weight[at], 0.0).sum()
    return loss.sum() / total if reduction == MEAN else _reduced(loss, reduction), total


def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN) -> Tensor:
    """``binary_cross_entropy``."""
    loss = (target - 1) * (-x).log1p().clamp(min=LEAST_LOG) - target * x.log().clamp(min=LEAST_LOG)
    return _reduced(loss if weight is None else loss * weight, reduction)


def mse_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """``mse_loss``."""
    return _reduced((x - target) ** 2, reduction)


def huber_loss(x: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    """``huber_loss``."""
    away = (x - target).abs()
    return _reduced(torch.where(away <= delta, 0.5 * away * away, delta * (away - 0.5 * delta)), reduction)


def smooth_l1_loss(x: Tensor, target: Tensor, reduction: int = MEAN, beta: float = 1.0) -> Tensor:
    """``smooth_l1_loss``."""
    away = (x - target).abs()
    return _reduced(torch.where(away < beta, 0.5 * away**2 / beta, away - 0.5 * beta), reduction)


def soft_margin_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """``soft_margin_loss``, whose kernel takes exponentials that overflow in float64 too."""
    return _reduced(torch.logaddexp(-target * x, torch.zeros_like(x)), reduction)


def soft_margin_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """``soft_margin_loss_backward``; the kernel's quotient of two of them is no number then."""
    each = -target * torch.sigmoid(-target * x) * grad
    return each / x.numel() if reduction == MEAN else each
