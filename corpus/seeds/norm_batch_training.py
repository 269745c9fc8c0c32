"""Batch norm in training mode, running statistics updated.

The buffers change on every call; two calls are made so that the second one
sees the statistics left by the first."""

import torch
from torch import nn

ORIGIN = "conv stem with BatchNorm2d in train mode"
META = {"calls": 2}


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4, momentum=0.3)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def make_fn():
    return Stem().train()


def make_inputs():
    return [torch.randn(3, 3, 5, 7)]
