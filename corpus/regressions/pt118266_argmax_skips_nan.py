"""Issue 118266: argmax steps over a NaN that eager selects.

The logarithm of a negative odds value is NaN, which counts as the maximum in
eager; the C++ reduction compared with > and never took it."""

import torch

ORIGIN = "pytorch/pytorch#118266"
EXPECTED = "finding"
BROKEN_IN = "2.1.2"


def make_inputs():
    return [torch.tensor([[4.0, 9.0, 0.25, -0.5, 2.0]])]


def fn(odds):
    return torch.log(odds).argmax(dim=1)
