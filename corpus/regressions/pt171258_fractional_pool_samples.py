"""Issue 171258: fractional max pooling with given samples picks other windows.

The lowering computed the window starts from the random samples in another way than
the eager kernel."""

import torch

ORIGIN = "pytorch/pytorch#171258"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0"


def make_inputs():
    return [torch.randn(2, 2, 25, 21), torch.rand(2, 2, 2)]


def fn(image, samples):
    values, where = torch.ops.aten.fractional_max_pool2d(image, [2, 2], [11, 9], samples)
    return values, where
