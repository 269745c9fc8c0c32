"""Issue 195579: addmm takes a bias that cannot broadcast to the product.

The bias has more rows than the product. Eager raises; the decomposition adds with
ordinary broadcasting and returns the taller shape."""

import torch

ORIGIN = "pytorch/pytorch#195579"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0"
META = {"raises": True}


def make_inputs():
    return [torch.randn(12, 1), torch.randn(1, 1), torch.randn(1, 1)]


def fn(bias, x, weight):
    return torch.relu(torch.addmm(bias, x, weight))
