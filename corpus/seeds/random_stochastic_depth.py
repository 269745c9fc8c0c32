"""Residual branches that whole samples skip at random, and a mask over tokens, as image models are regularised."""

import torch

ORIGIN = "stochastic depth and patch dropping (own spelling)"


def make_inputs():
    return [torch.randn(4, 6, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)]


def fn(x, w):
    for rate in (0.1, 0.3):
        keep = torch.empty(x.shape[0], 1, 1).bernoulli_(1 - rate) / (1 - rate)
        x = x + keep * torch.relu(x @ w)
    visible = torch.bernoulli(torch.full(x.shape[:2], 0.75)).bool()
    return torch.where(visible[..., None], x, torch.zeros(())), visible.sum(1)
