"""Mixture of experts with top-2 routing, all experts evaluated.

Router probabilities are renormalised over the chosen two and scattered back to
a dense gate matrix; experts are stored stacked and run with einsum."""

import torch

ORIGIN = "Mixtral-like router, dense evaluation (own spelling)"


def make_inputs():
    x = torch.randn(7, 6, requires_grad=True)
    router = torch.randn(6, 4, requires_grad=True)
    return [x, router, torch.randn(4, 6, 5, requires_grad=True)]


def fn(x, router, experts):
    probs = torch.softmax(x @ router, dim=-1)
    top, index = probs.topk(2, dim=-1)
    top = top / top.sum(dim=-1, keepdim=True)
    gates = torch.zeros_like(probs).scatter(1, index, top)
    outputs = torch.einsum("td,edh->teh", x, experts)
    return torch.einsum("te,teh->th", gates, outputs)
