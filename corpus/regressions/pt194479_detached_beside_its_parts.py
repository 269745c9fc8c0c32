"""Issue 194479: activations are split into two heads and kept, detached, for a log.

The detached result lies in the same memory as the two parts; they lose their gradient."""

import torch

ORIGIN = "pytorch/pytorch#194479"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(4, 6).requires_grad_()]


def fn(x):
    hidden = x.sigmoid() * 2
    mean, scale = hidden[:, :2], hidden[:, 2:]
    return mean, scale, hidden.detach()
