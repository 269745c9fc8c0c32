"""Causal attention with a tril buffer.

The lower triangle is kept in a buffer, cut to the current length and compared
with zero for masked_fill(-inf)."""

import torch
from torch import nn

ORIGIN = "small GPT trained on characters, causal block (own spelling)"


class CausalBlock(nn.Module):
    def __init__(self, width=16, heads=2, block=9):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.register_buffer("tril", torch.tril(torch.ones(block, block)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        shape = (b, t, self.heads, c // self.heads)
        q, k, v = (z.view(shape).transpose(1, 2) for z in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        att = att.masked_fill(self.tril[:t, :t] == 0, float("-inf"))
        y = att.softmax(dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


def make_fn():
    return CausalBlock()


def make_inputs():
    return [torch.randn(2, 7, 16, requires_grad=True)]
