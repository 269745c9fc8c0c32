"""Scores from baddbmm on top of a position bias.

alpha holds the scaling and beta is one, the way ALiBi models compute biased
scores in a single call; the softmax runs in float32."""

import torch

ORIGIN = "BLOOM-style attention scores (own spelling)"


def make_inputs():
    slopes = torch.tensor([0.5, 0.25, 0.125]).repeat(2).view(6, 1, 1)
    bias = slopes * torch.arange(7).view(1, 1, 7)
    return [torch.randn(6, 5, 8), torch.randn(6, 8, 7), torch.randn(6, 7, 8), bias]


def fn(q, k_t, v, bias):
    scores = torch.baddbmm(bias, q, k_t, beta=1.0, alpha=8**-0.5)
    scores = scores.view(2, 3, 5, 7)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    out = torch.bmm(weights.view(6, 5, 7), v)
    return out.view(2, 3, 5, 8).transpose(1, 2).reshape(2, 5, 24)
