"""Flags that are shifted to the left are numbers in eager, and are refused when they are compiled."""

import torch

ORIGIN = "packing of bits (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


def make_inputs():
    return [torch.rand(6, 8) > 0.5]


def fn(flags):
    return (flags << 2) | (flags << 1)
