"""Overlapping windows of one activation, written inside of the program while gradients flow through them.

The windows are views of a tensor that is itself a result, as slices of a shared projection are."""

import torch

ORIGIN = "fused projections whose slices overlap (own spelling)"


def make_inputs():
    weight = torch.randn(5, 8, requires_grad=True)
    shared = weight * 1.5
    return [shared[:, :5], torch.randn(8, requires_grad=True), shared[:, 3:], shared[1:4], torch.randn(5)]


def fn(left, bias, right, middle, shift):
    seen = right - shift
    left.add_(shift)
    between = left[1:] + bias[:5]
    gated = left * bias[:5].exp()
    return gated.sum(0), seen, between, middle.sin() * bias, right[:, 1] * left[:, 4]
