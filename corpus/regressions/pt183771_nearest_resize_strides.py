"""Issue 183771: nearest resizing of a permuted volume returns other strides.

The volume is stored channels last by a permute; eager keeps an order of its own,
the decomposition another. Values agree."""

import torch
import torch.nn.functional as F

ORIGIN = "pytorch/pytorch#183771"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0"


def make_inputs():
    return [torch.randn(2, 3, 4, 2, 3).permute(0, 4, 1, 2, 3)]


def fn(volume):
    return F.interpolate(volume * 2, size=(4, 5, 3), mode="nearest")
