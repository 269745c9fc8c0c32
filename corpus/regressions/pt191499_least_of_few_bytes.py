"""Issue 191499: the least of fewer bytes than two vectors hold.

What is past the end of the input takes part in the minimum, so that the result is a number
that the input does not have."""

import torch

ORIGIN = "pytorch/pytorch#191499"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randint(20, 90, (19,), dtype=torch.int8), torch.randint(20, 90, (3, 13), dtype=torch.uint8)]


def fn(levels, counts):
    return levels.amin(), (-levels).amax(), counts.min()
