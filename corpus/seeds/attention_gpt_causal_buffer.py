"""Decoder self-attention with a boolean causal mask kept as a buffer.

Scores are divided by a 0-dim tensor, masked with torch.where and the most negative number,
and keys and values are returned for the cache, as GPT-2-style decoders do."""

import torch
from torch import nn

ORIGIN = "causal self-attention of a GPT-2-style decoder with its key-value cache (own spelling)"
META = {"no_grad": True}


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, longest):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        mask = torch.ones(longest, longest, dtype=torch.bool).tril().view(1, 1, longest, longest)
        self.register_buffer("mask", mask)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        parts = self.project(hidden).split(width, dim=-1)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).permute(0, 2, 1, 3) for p in parts)
        scores = torch.matmul(q, k.permute(0, 1, 3, 2))
        scores = scores / torch.full([], v.size(-1) ** 0.5, dtype=scores.dtype, device=scores.device)
        lowest = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device)
        scores = torch.where(self.mask[:, :, :length, :length], scores, lowest)
        return scores.softmax(dim=-1).matmul(v), k, v


def make_inputs():
    return [torch.randn(2, 5, 24)]


def make_fn():
    return CausalSelfAttention(24, 3, 6).eval()
