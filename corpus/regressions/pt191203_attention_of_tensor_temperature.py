"""Issue 191203: attention whose temperature is a tensor without dims.

It is taken for the scale of fused attention, which is a number, and does not compile."""

import torch

ORIGIN = "pytorch/pytorch#191203"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    query, key, value = (torch.randn(1, 2, 5, 8) for _ in range(3))
    return [query, key, value, torch.zeros(5, 5).fill_diagonal_(-50.0), torch.tensor(2.5)]


def fn(query, key, value, mask, temperature):
    weights = (query @ key.mT / temperature + mask).softmax(-1)
    return weights @ value
