"""Issue 178964: the same lost index for products, min and the other dimension.

Two reductions over one product of a transposed and a plain matrix; the indices of
one of them were wrong."""

import torch

ORIGIN = "pytorch/pytorch#178964"
EXPECTED = "finding"
BROKEN_IN = "2.6.0 2.8.0 2.10.0 2.11.0"


def make_inputs():
    return [torch.randn(32, 32).t(), torch.randn(32, 32)]


def fn(cost, weight):
    weighted = cost * weight
    cheapest = weighted.min(dim=1)
    dearest = weighted.max(dim=0)
    return cheapest.indices, dearest.indices, cheapest.values
