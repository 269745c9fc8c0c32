"""Issue 198131: a full-slice copy takes the source after its later update.

The old state is stored by slice assignment, then the state is scaled. The copy was
dropped as a no-op and the stored rows show the scaled values."""

import torch

ORIGIN = "pytorch/pytorch#198131"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.13.0"


def make_inputs():
    return [torch.zeros(2, 5), torch.arange(1.0, 11.0).view(2, 5)]


def fn(previous, state):
    previous[:, 0:] = state[:, 0:]
    state.mul_(0.5)
    return state
