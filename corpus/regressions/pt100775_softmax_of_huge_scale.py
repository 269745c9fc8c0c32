"""Issue 100775: softmax of scores with a huge tensor scale becomes NaN.

Inductor subtracted the row maximum before it applied the scale; with a negative
scale of about 1e14 the rewritten form overflowed where eager is finite."""

import torch
from torch import nn

ORIGIN = "pytorch/pytorch#100775"
EXPECTED = "finding"
BROKEN_IN = "2.1.2"


class SharpRouter(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Linear(24, 1), nn.Linear(24, 1)
        self.sharpness = nn.Parameter(torch.tensor([-2.5e14]))

    def forward(self, x):
        agreement = torch.matmul(self.source(x), self.target(x).mT)
        return torch.softmax(agreement.mul(self.sharpness), dim=-1)


def make_fn():
    return SharpRouter()


def make_inputs():
    return [torch.randn(9, 24)]
