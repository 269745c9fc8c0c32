"""Issue 195675: a clamp bound that float32 cannot hold.

Eager refuses to convert 1e39 to float32; the compiled kernel clamps to infinity
and returns."""

import torch

ORIGIN = "pytorch/pytorch#195675"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"
META = {"raises": True}


def make_inputs():
    return [torch.randn(2, 5)]


def fn(logits):
    return torch.clamp(logits * 3, max=1e39)
