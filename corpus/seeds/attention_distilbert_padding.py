"""Encoder self-attention whose integer padding mask is compared with zero.

Heads are split with view and permute, scores divided by the root of the head size, and
padded keys filled with minus infinity, as DistilBERT-style encoders do."""

import math

import torch
from torch import nn

ORIGIN = "multi-head self-attention of a DistilBERT-style encoder (own spelling)"
META = {"no_grad": True}


class PaddedSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def split(self, x):
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).permute(0, 2, 1, 3)

    def forward(self, hidden, keep):
        q, k, v = (self.split(layer(hidden)) for layer in (self.query, self.key, self.value))
        scores = (q @ k.transpose(-2, -1)).div(math.sqrt(q.size(-1)))
        padded = (keep == 0).view(keep.size(0), 1, 1, keep.size(1)).expand_as(scores)
        weights = torch.softmax(scores.masked_fill(padded, float("-inf")), dim=-1)
        return weights @ v


def make_inputs():
    keep = torch.tensor([[1, 1, 1, 1, 0, 1, 0], [1, 1, 0, 1, 1, 1, 1]])
    return [torch.randn(2, 7, 24), keep]


def make_fn():
    return PaddedSelfAttention(24, 3).eval()
