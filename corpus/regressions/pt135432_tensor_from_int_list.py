"""Issue 135432: torch.Tensor(list of ints) goes wrong on the second call.

The first call specialises on the list. When it changes, its ints turn symbolic
and torch.Tensor read them as sizes, not as data."""

import torch

ORIGIN = "pytorch/pytorch#135432"
EXPECTED = "finding"
BROKEN_IN = "2.1.2 2.4.0"


def make_inputs():
    return [[2, 3, 5], [4, 6, 7]]


def fn(scores):
    return torch.Tensor(scores)


def drive(g, first, second):
    return g(first), g(second)
