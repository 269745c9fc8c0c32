"""Kernel matrix with jitter on the diagonal and one Newton-Schulz step.

diagonal().add_ changes the argument; the result of the product after it must
see the jitter, the mean before it must not."""

import torch

ORIGIN = "Gaussian-process covariance preparation (own spelling)"


def make_inputs():
    x = torch.randn(7, 3, dtype=torch.float64)
    return [torch.exp(-0.5 * torch.cdist(x, x).square()), 0.25]


def fn(kernel, jitter):
    before = kernel.mean()
    kernel.diagonal().add_(jitter)
    scaled = kernel / kernel.norm()
    guess = scaled.t()
    eye = torch.eye(7, dtype=kernel.dtype, device=kernel.device)
    guess = guess @ (2 * eye - scaled @ guess)
    return before, guess, kernel.trace()
