"""Rotary embedding as a complex multiplication.

Pairs of channels become complex numbers, are multiplied by unit phasors from
torch.polar and viewed as real again."""

import torch

ORIGIN = "Llama reference-like rotary embedding on complex numbers"


def make_inputs():
    return [torch.randn(2, 5, 3, 8), torch.arange(5, dtype=torch.float32)]


def fn(x, positions):
    freq = 1.0 / (50.0 ** (torch.arange(0, 8, 2, device=positions.device).float() / 8))
    angle = torch.outer(positions, freq)
    phasor = torch.polar(torch.ones_like(angle), angle)
    pairs = torch.view_as_complex(x.reshape(2, 5, 3, 4, 2))
    rotated = pairs * phasor[None, :, None, :]
    return torch.view_as_real(rotated).flatten(3)
