"""Issue 178964: indices of max are zero when one addend is transposed.

The C++ backend tiled the reduction for the transposed operand and lost the
position of the maximum; values were right. The data have no ties."""

import torch

ORIGIN = "pytorch/pytorch#178964"
EXPECTED = "finding"
BROKEN_IN = "2.10.0 2.11.0"


def make_inputs():
    return [torch.randn(16, 16).t(), torch.randn(16, 16)]


def fn(transition, emission):
    score = transition + emission
    best, previous = score.max(dim=1)
    return best, previous
