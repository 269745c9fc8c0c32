"""Attention with a float mask added to the scores.

The mask is 0 where a key may be seen and -1e4 at padded positions, and it is
expanded over heads and queries."""

import torch

ORIGIN = "BERT-style extended attention mask (own spelling)"


def make_inputs():
    q, k, v = (torch.randn(2, 4, 6, 8) for _ in range(3))
    mask = torch.zeros(2, 1, 1, 6)
    mask[0, :, :, 4:] = -1e4
    mask[1, :, :, 5:] = -1e4
    return [q, k, v, mask.expand(2, 4, 6, 6)]


def fn(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) * 0.35
    scores = scores + mask
    weights = torch.nn.functional.softmax(scores, dim=-1)
    context = torch.matmul(weights, v)
    return context.permute(0, 2, 1, 3).contiguous(), weights
