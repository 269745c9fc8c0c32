"""SwiGLU: one projection split in two halves, gate times value.

chunk(2) of a fused gate-up matrix, silu on the gate, then the down matrix."""

import torch
import torch.nn.functional as F

ORIGIN = "gated feed-forward of Llama-like models, fused projection"


def make_inputs():
    return [torch.randn(2, 3, 16)[..., ::2], torch.randn(26, 8), torch.randn(8, 13)]


def fn(x, gate_up, down):
    gate, value = F.linear(x, gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * value, down)
