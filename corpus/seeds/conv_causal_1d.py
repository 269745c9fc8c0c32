"""Causal dilated 1-d convolutions with a gated activation.

Left padding by F.pad, two convolutions combined as tanh times sigmoid; the input
arrives as (batch, time, channel) and is transposed."""

import torch
import torch.nn.functional as F

ORIGIN = "WaveNet-like gated causal layer (own spelling)"


def make_inputs():
    x = torch.randn(17, 2, 4).transpose(0, 1)
    filt = torch.randn(4, 4, 2).mul_(0.5).requires_grad_()
    gate = torch.randn(4, 4, 2).mul_(0.5).requires_grad_()
    return [x, filt, gate]


def fn(x, filt, gate):
    y = x.transpose(1, 2)
    for dilation in (1, 3):
        padded = F.pad(y, (dilation, 0))
        a = F.conv1d(padded, filt, dilation=dilation)
        b = F.conv1d(padded, gate, dilation=dilation)
        y = y + torch.tanh(a) * torch.sigmoid(b)
    return y.transpose(1, 2)
