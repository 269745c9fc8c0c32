"""Multi-head attention, scores divided by sqrt(d).

The textbook spelling: matmul, div, softmax, matmul. Sequence length is odd and
the operands carry gradients, so the backward of the block is compared as well."""

import math

import torch

ORIGIN = "scaled dot-product attention as in textbook transformer tutorials"


def make_inputs():
    return [torch.randn(2, 3, 7, 8, requires_grad=True) for _ in range(3)]


def fn(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, v)
