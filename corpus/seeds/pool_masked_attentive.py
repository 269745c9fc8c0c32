"""Sentence vector: masked mean, masked max and attentive pooling.

Hidden positions must not count; the float mask, a -inf-like fill and a softmax
weight are used side by side."""

import torch

ORIGIN = "sentence-embedding pooling layer (own spelling)"


def make_inputs():
    mask = torch.ones(3, 6)
    mask[0, 4:] = 0
    mask[2, 2:] = 0
    return [torch.randn(3, 6, 5, requires_grad=True), mask, torch.randn(5)]


def fn(h, mask, query):
    m = mask.unsqueeze(-1).expand(h.size())
    mean = torch.sum(h * m, 1) / torch.clamp(m.sum(1), min=1e-9)
    top = h.masked_fill(m == 0, -1e9).max(1)[0]
    score = (h @ query).masked_fill(mask == 0, -1e9).softmax(1)
    attentive = (score.unsqueeze(1) @ h).squeeze(1)
    return torch.cat((mean, top, attentive), dim=-1)
