"""Magnitude pruning: keep the k largest weights of each row.

The k-th value by topk is the threshold; kthvalue and median statistics are
reported, and gradients flow through the kept weights only."""

import torch

ORIGIN = "magnitude pruning during training (own spelling)"


def make_inputs():
    return [torch.randn(5, 17, requires_grad=True), torch.randn(17)]


def fn(weight, x):
    size = weight.detach().abs()
    threshold = size.topk(6, dim=1, sorted=True).values[:, -1:]
    keep = (size >= threshold).to(weight.dtype)
    middle = size.median(dim=1).values
    return (weight * keep) @ x, middle, keep.sum(dim=1)
