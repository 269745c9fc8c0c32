"""Issue 198095: an input that is a part of another one, a view of which is returned.

The larger one is written, so that both are made anew from their common memory; the view
cannot be, and the call ends in an assertion."""

import torch

ORIGIN = "pytorch/pytorch#198095"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    state = torch.randn(5, 4)
    return [state, state[1:]]


def fn(state, rest):
    state.add_(1)
    return rest[:, 2]
