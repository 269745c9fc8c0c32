"""Self-attention module that turns an int mask into a bias.

A 0-1 attention mask becomes (1 - mask) * -1e4, as encoder models do, and is
added to scores computed from three linear projections (training)."""

import torch
from torch import nn

ORIGIN = "encoder self-attention with an integer attention_mask (own spelling)"


class SelfAttention(nn.Module):
    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, attention_mask):
        bias = (1 - attention_mask[:, None, None, :]) * -1e4
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / 2.0 + bias
        mixed = scores.softmax(-1) @ v
        return mixed.transpose(1, 2).flatten(2)


def make_fn():
    return SelfAttention()


def make_inputs():
    mask = torch.ones(2, 5, dtype=torch.int64)
    mask[1, 3:] = 0
    return [torch.randn(2, 5, 12), mask]
