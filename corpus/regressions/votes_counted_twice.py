"""Flags that are added with a whole factor: eager gives flags, compiled kernels write numbers of eight bytes over them.

The result has one byte an element, so what lies behind it in memory is overwritten."""

import torch

ORIGIN = "votes of which some count twice (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    generator = torch.Generator().manual_seed(5)
    return [torch.rand(64, 64, generator=generator) > 0.5, torch.rand(64, 64, generator=generator) > 0.7]


def fn(votes, of_members):
    return torch.add(votes.t(), of_members, alpha=2)
