"""Issue 196467: ``torch.Tensor`` is given the size of another tensor.

A size makes a tensor of that shape; compiled, it is a tuple of numbers, and the result has
as many elements as there are dims."""

import torch

ORIGIN = "pytorch/pytorch#196467"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(2, 4, 3)]


def fn(x):
    return torch.Tensor(x.sum(1).size()).zero_() - 1, x.mean(1)
