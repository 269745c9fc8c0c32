"""Issue 189518: cumsum over a tensor of ones forgets its dtype.

Positions are counted by a cumsum with an explicit dtype. The pattern that replaces
it by an arange returned another dtype."""

import torch

ORIGIN = "pytorch/pytorch#189518"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0"


def make_inputs():
    return [torch.randint(0, 50, (3, 7))]


def fn(ids):
    attention_mask = torch.ones(ids.shape, dtype=torch.bool)
    positions = attention_mask.cumsum(1, dtype=torch.float16)
    return positions
