"""Issue 174049: fused attention forgets the scale that the user divides by.

Scores are divided by 1/sqrt(d), that is multiplied by sqrt(d), on purpose. The
attention pattern matched and used its own idea of the scale."""

import torch
from torch import nn

ORIGIN = "pytorch/pytorch#174049"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0"
META = {"no_grad": True}


class SharpAttention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, bias):
        q = self.query(x).permute(0, 2, 1, 3)
        k = self.key(x).permute(0, 2, 1, 3)
        v = self.value(x).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k.transpose(-2, -1)).div(1.0 / 32**0.5) + bias
        mixed = scores.softmax(dim=-1).matmul(v)
        return mixed.permute(0, 2, 1, 3).flatten(2)


def make_fn():
    return SharpAttention().eval()


def make_inputs():
    return [torch.randn(1, 3, 5, 32), torch.randn(1, 1, 3, 3)]
