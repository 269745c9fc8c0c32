"""Categories sampled with Gumbel noise, hard in the forward pass and soft in the backward pass, as discrete
autoencoders train their codebooks."""

import torch

ORIGIN = "straight-through Gumbel softmax (own spelling)"


def make_inputs():
    return [torch.randn(6, 9, requires_grad=True), torch.randn(9, 5, requires_grad=True)]


def fn(logits, codebook):
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
    soft = ((logits + noise) / 0.7).softmax(-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    code = hard + soft - soft.detach()
    return code @ codebook, soft.mean(0)
