"""Issue 197089: standard deviation of very small and very large rows.

Eager accumulates in double and takes the root before narrowing. The decomposition
squares in float32, which gives zero for the small row and infinity for the large
one. Gradients are affected too."""

import torch

ORIGIN = "pytorch/pytorch#197089"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"


def make_inputs():
    small = torch.randn(17).mul_(1e-28).requires_grad_()
    return [small, torch.randn(17).mul_(1e24).requires_grad_()]


def fn(small, large):
    return torch.stack([small.std(), large.std()])
