"""Grouped-query attention with repeat_interleave and with expand.

Four query heads share two key-value heads; keys use repeat_interleave, values
the expand-and-reshape spelling of the same thing."""

import torch

ORIGIN = "Llama-like grouped-query attention (own spelling)"


def make_inputs():
    return [torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)]


def repeat_kv(x, groups):
    b, heads, t, d = x.shape
    x = x[:, :, None].expand(b, heads, groups, t, d)
    return x.reshape(b, heads * groups, t, d)


def fn(q, k, v):
    k = k.repeat_interleave(2, dim=1)
    v = repeat_kv(v, 2)
    scores = torch.matmul(q, k.transpose(2, 3)) / 8**0.5
    causal = torch.ones(5, 5, dtype=torch.bool, device=q.device).triu(1)
    scores = scores.masked_fill(causal, torch.finfo(q.dtype).min)
    return torch.matmul(scores.softmax(-1), v)
