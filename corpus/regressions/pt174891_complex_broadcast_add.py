"""Issue 174891: adding complex tensors of different shapes.

The constant side was viewed as real pairs before broadcasting, so its imaginary
half met the wrong elements."""

import torch

ORIGIN = "pytorch/pytorch#174891"
EXPECTED = "finding"
BROKEN_IN = "2.6.0 2.8.0 2.10.0 2.11.0"


def make_inputs():
    return [torch.full((3, 3), 2.0 - 1.0j, dtype=torch.complex64)]


def fn(spectrum):
    carrier = torch.ones(3, 1, dtype=torch.complex64)
    return spectrum + carrier
