"""Residual block with depthwise and pointwise convolutions, channels_last.

Input and weights are channels_last; batch norm runs in eval mode and the block
is trained (gradients of input and parameters)."""

import torch
import torch.nn.functional as F
from torch import nn

ORIGIN = "MobileNet-like inverted residual (own spelling)"


class Inverted(nn.Module):
    def __init__(self, c=4, wide=8):
        super().__init__()
        self.expand = nn.Conv2d(c, wide, 1, bias=False)
        self.norm = nn.BatchNorm2d(wide)
        self.depth = nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
        self.project = nn.Conv2d(wide, c, 1)

    def forward(self, x):
        y = F.relu6(self.norm(self.expand(x)))
        return x + self.project(F.hardswish(self.depth(y)))


def make_fn():
    return Inverted().eval().to(memory_format=torch.channels_last)


def make_inputs():
    x = torch.randn(2, 4, 5, 7).to(memory_format=torch.channels_last)
    return [x.requires_grad_()]
