"""Issue 198364: results of a transposed operand come back row-major.

copysign, floor_divide and addr follow the layout of their first operand in eager;
their decompositions return other strides. Values agree."""

import torch

ORIGIN = "pytorch/pytorch#198364"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.13.0 2.15.0"


def make_inputs():
    return [torch.rand(3, 7).t(), torch.rand(7, 3) + 0.5]


def fn(momentum, scale):
    signed = torch.copysign(momentum, scale - 1.0)
    whole = torch.floor_divide(momentum, scale)
    outer = torch.addr(momentum, scale[:, 1], scale[2], beta=0.0)
    return signed, whole, outer
