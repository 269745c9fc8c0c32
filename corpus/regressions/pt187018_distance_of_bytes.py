"""Issue 187018: the absolute value of a byte becomes an int.

``abs`` of ``uint8`` is promoted by C++, and what follows no longer wraps around at 256."""

import torch

ORIGIN = "pytorch/pytorch#187018"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.tensor([[9, 250, 31], [128, 64, 77]], dtype=torch.uint8)]


def fn(pixels):
    below = -pixels.abs()
    return torch.cat([below, below], 1).sum(1), (below.long() * 2).amax()
