"""Issue 141865: a float32 linear layer takes a float16 column.

Eager raises for the mixed dtypes. With one input feature the addmm decomposition
becomes a broadcast product, which promotes and returns a result."""

import torch
from torch import nn

ORIGIN = "pytorch/pytorch#141865"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"
META = {"no_grad": True, "raises": True}


class TimeEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(1, 6)

    def forward(self, t):
        return torch.sin(self.lift(t))


def make_fn():
    return TimeEmbedding().eval()


def make_inputs():
    return [torch.rand(1, 1, dtype=torch.float16)]
