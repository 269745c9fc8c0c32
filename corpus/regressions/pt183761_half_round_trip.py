"""Issue 183761: the rounding to float16 inside a fused chain is dropped.

A gate is stored in half precision and widened again at once. Inductor keeps
float32 inside the kernel by design; emulate_precision_casts gives the exact mode."""

import torch

ORIGIN = "pytorch/pytorch#183761"
EXPECTED = "expected"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"


def make_inputs():
    return [torch.linspace(-2.0, 2.0, 45)]


def fn(x):
    gate = torch.where(x > 0.3, x, torch.full_like(x, 0.3)).to(torch.float16)
    return x * gate.float() - gate.float()
