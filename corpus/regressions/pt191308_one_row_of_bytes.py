"""Issue 191308: a batched product of bytes with a single column is a sum of int64 when it is compiled."""

import torch

ORIGIN = "pytorch/pytorch#191308"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    generator = torch.Generator().manual_seed(5)
    levels = torch.randint(0, 9, (3, 8, 6), generator=generator, dtype=torch.uint8)
    return [levels, torch.randint(0, 5, (3, 6, 1), generator=generator, dtype=torch.uint8)]


def fn(levels, weights):
    return torch.bmm(levels, weights)
