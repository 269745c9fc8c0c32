"""Attention whose query is scaled before the product.

Several encoder-decoder models multiply q by d**-0.5 first and run one bmm over
the merged batch and head dimensions."""

import torch

ORIGIN = "BART-like decoder attention over merged batch*head (own spelling)"


def make_inputs():
    return [torch.randn(2, 5, 24), torch.randn(2, 5, 24), torch.randn(2, 5, 24)]


def split_heads(x, heads):
    b, t, width = x.shape
    x = x.view(b, t, heads, width // heads).transpose(1, 2)
    return x.reshape(b * heads, t, width // heads)


def fn(q, k, v):
    b, t, width = q.shape
    q = split_heads(q * (8**-0.5), 3)
    weights = torch.softmax(torch.bmm(q, split_heads(k, 3).transpose(1, 2)), dim=-1)
    mixed = torch.bmm(weights, split_heads(v, 3))
    return mixed.view(b, 3, t, width // 3).transpose(1, 2).reshape(b, t, width)
