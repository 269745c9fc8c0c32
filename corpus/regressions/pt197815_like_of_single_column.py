"""Issue 197815: zeros_like of a transposed single row changes a stride.

Optimiser states are created with the layout of their parameter. The stride of the
dimension of size one is not kept; values agree."""

import torch

ORIGIN = "pytorch/pytorch#197815"
EXPECTED = "edge-case"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"


def make_inputs():
    return [torch.randn(1, 7).t()]


def fn(param):
    first = torch.zeros_like(param)
    second = torch.full_like(param, 0.5)
    return first, second
