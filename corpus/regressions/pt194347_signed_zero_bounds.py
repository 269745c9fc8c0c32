"""Issue 194347: minimum and maximum of zeros of both signs.

Eager orders -0.0 and +0.0 in one way, the vectorised C++ code in another; the
results differ in the sign bit only."""

import torch

ORIGIN = "pytorch/pytorch#194347"
EXPECTED = "edge-case"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"


def make_inputs():
    return [torch.tensor([[-0.0], [0.0]]), torch.tensor([[0.0], [-0.0]])]


def fn(low, high):
    return torch.minimum(low, high), torch.maximum(low, high)
