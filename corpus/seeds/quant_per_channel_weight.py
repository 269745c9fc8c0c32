"""Asymmetric per-channel uint8 weights with zero points, dequantised on use.

Row minima and maxima give scale and zero point; the matmul takes the restored
weight and the error of the round trip is reported."""

import torch
import torch.nn.functional as F

ORIGIN = "weight-only quantisation per output channel (own spelling)"


def make_inputs():
    return [torch.randn(3, 12), torch.randn(12, 5).t()]


def fn(x, weight):
    low, high = torch.aminmax(weight, dim=1, keepdim=True)
    scale = (high - low) / 255.0
    zero = torch.round(-low / scale)
    q = (torch.round(weight / scale) + zero).clamp(0, 255).to(torch.uint8)
    restored = (q.float() - zero) * scale
    return F.linear(x, restored), q, (restored - weight).abs().mean(1)
