"""Attention entry point with a bool mask and with a float bias of distances.

Two heads of one layer: one sees only unmasked keys, the other adds a linear
distance penalty in the spirit of ALiBi."""

import torch
import torch.nn.functional as F

ORIGIN = "attention layer with key padding and ALiBi-like bias"


def make_inputs():
    keep = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    keep[0, ..., 3:] = False
    return [torch.randn(2, 2, 5, 8), keep, torch.tensor([0.5, 0.25])]


def fn(x, keep, slopes):
    pos = torch.arange(x.size(2), device=x.device)
    distance = (pos[None, :] - pos[:, None]).abs().to(x.dtype)
    bias = -slopes.view(1, 2, 1, 1) * distance
    masked = F.scaled_dot_product_attention(x, x, x, attn_mask=keep)
    biased = F.scaled_dot_product_attention(x, x, x, attn_mask=bias, scale=0.3)
    return masked + biased
