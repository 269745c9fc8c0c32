"""Rotary position embedding, half-split form.

cos and sin tables are built from positions inside the function and applied to
queries and keys; rotate_half concatenates the negated second half."""

import torch

ORIGIN = "rotary embedding as in Llama-family models (own spelling)"


def make_inputs():
    q = torch.randn(1, 2, 6, 8, requires_grad=True)
    k = torch.randn(1, 2, 6, 8, requires_grad=True)
    return [q, k, torch.arange(3, 9)]


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def fn(q, k, positions):
    freq = 1.0 / (100.0 ** (torch.arange(0, 8, 2, device=positions.device).float() / 8))
    angle = positions[:, None].float() * freq[None, :]
    angle = torch.cat((angle, angle), dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
