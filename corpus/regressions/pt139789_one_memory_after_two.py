"""Issue 139789: two inputs of one memory, after a call with two of their own.

What is compiled for inputs that share no memory is not compiled anew for such as do: the write into one of them is not
seen in the other."""

import torch

ORIGIN = "pytorch/pytorch#139789"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    state = torch.randn(6, 4)
    return [state, state[2:]]


def fn(state, rest):
    state.add_(1)
    return rest * 2
