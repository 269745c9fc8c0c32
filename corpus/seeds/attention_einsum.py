"""Attention written with einsum on (batch, time, head, channel) operands.

Nothing is transposed by hand; a learned relative bias is added to the scores."""

import torch

ORIGIN = "einsum attention as in JAX-to-PyTorch ports (own spelling)"


def make_inputs():
    q, k, v = (torch.randn(2, 5, 3, 4, requires_grad=True) for _ in range(3))
    return [q, k, v, torch.randn(3, 5, 5, requires_grad=True)]


def fn(q, k, v, relative_bias):
    logits = torch.einsum("bqhd,bkhd->bhqk", q * 0.5, k)
    logits = logits + relative_bias.unsqueeze(0)
    logits = logits - logits.amax(dim=-1, keepdim=True).detach()
    weights = logits.exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)
