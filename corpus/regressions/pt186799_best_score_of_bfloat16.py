"""Issue 186799: what is the largest is computed again for the backward pass with more precision than its maximum was
rounded to, so that no element is equal to it, and all gradients are NaN."""

import torch

ORIGIN = "pytorch/pytorch#186799"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(4, 24, generator=generator).bfloat16().requires_grad_()]


def fn(scores):
    scaled = scores.tanh() * 1.3
    return (scaled.amax(1, keepdim=True) - scaled).float().mean(1)
