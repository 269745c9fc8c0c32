"""Issue 198102: windows of a signal, with samples between them, are changed in place.

The samples that lie in no window become zero."""

import torch

ORIGIN = "pytorch/pytorch#198102"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.rand(3, 17)]


def fn(signal):
    signal.unfold(1, 3, 5).mul_(4.0)
    return signal.cumsum(1)
