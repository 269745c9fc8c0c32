"""Feed-forward block with the exact, erf-based GELU written out.

The same activation through F.gelu is returned for comparison by the caller."""

import math

import torch
import torch.nn.functional as F
from torch import nn

ORIGIN = "BERT intermediate layer (own spelling)"


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(9, 17)
        self.down = nn.Linear(17, 9)
        self.norm = nn.LayerNorm(9)

    def forward(self, x):
        h = self.up(x)
        h = h * 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0)))
        return self.norm(self.down(h) + x), F.gelu(self.up(x))


def make_fn():
    return FeedForward()


def make_inputs():
    return [torch.randn(3, 5, 9)]
