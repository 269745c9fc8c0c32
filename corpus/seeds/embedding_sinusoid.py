"""Sinusoidal positions written into even and odd columns.

The table is filled by strided slice assignment and added to scaled word
vectors looked up by plain indexing."""

import math

import torch

ORIGIN = "positional encoding of the original transformer (own spelling)"


def make_inputs():
    return [torch.randint(0, 19, (2, 7)), torch.randn(19, 10, requires_grad=True)]


def fn(ids, table):
    t, width = ids.size(1), table.size(1)
    position = torch.arange(t, dtype=torch.float32, device=table.device).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2, device=table.device) * (-math.log(1000.0) / width))
    encoding = torch.zeros(t, width, device=table.device)
    encoding[:, 0::2] = torch.sin(position * rate)
    encoding[:, 1::2] = torch.cos(position * rate)
    return table[ids] * math.sqrt(width) + encoding
