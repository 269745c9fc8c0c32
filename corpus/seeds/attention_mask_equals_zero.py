"""Scores filled with -1e9 where an int mask equals zero.

The spelling of the annotated transformer: mask == 0, masked_fill, softmax, and
the attention map returned next to the values."""

import math

import torch
import torch.nn.functional as F

ORIGIN = "attention(query, key, value, mask) helper of transformer tutorials"


def make_inputs():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    mask = torch.tensor([[1, 1, 1, 0, 1]]).view(1, 1, 1, 5)
    return [q, k, v, mask]


def fn(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(mask == 0, -1e9)
    p = F.softmax(scores, dim=-1)
    return torch.matmul(p, v), p
