"""RMS norm with the residual added before it and upcast to float32.

bfloat16 activations are widened, normalised, cast back and then multiplied by
the weight, as decoder-only language models do."""

import torch

ORIGIN = "fused add + RMSNorm of decoder models (own spelling)"


def make_inputs():
    hidden = torch.randn(2, 7, 16).to(torch.bfloat16)
    residual = torch.randn(2, 7, 16).to(torch.bfloat16)
    return [hidden, residual, torch.rand(16).add(0.5).to(torch.bfloat16)]


def fn(hidden, residual, weight):
    residual = hidden + residual
    wide = residual.to(torch.float32)
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * (wide * scale).to(hidden.dtype), residual
