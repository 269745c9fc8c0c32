"""Marginal likelihood of a Gaussian process: the gradient of the kernel's amplitude is ten times what it is.

A buffer of the backward pass is taken over in place (``scheduler.inplace_buffers``) while it is still read; with
``inplace_buffers=False`` the gradient is right."""

import torch

ORIGIN = "regression with a radial and a linear kernel (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    points = torch.rand(22, 3, dtype=torch.float64)
    logs = torch.tensor([0.1, -0.5, -2.0], dtype=torch.float64, requires_grad=True)
    return [points, (points.sum(1) * 3).sin(), logs]


def fn(points, observed, logs):
    amplitude, length, noise = logs.exp().unbind(0)
    apart = (points[:, None] - points).square().sum(-1)
    covariance = amplitude * (-0.5 * apart / length**2).exp() + 0.1 * points @ points.T
    factor = torch.linalg.cholesky(covariance + noise * torch.eye(len(points), dtype=points.dtype))
    weights = torch.cholesky_solve(observed[:, None], factor).squeeze(-1)
    return 0.5 * (observed * weights).sum() + factor.diagonal().log().sum()
