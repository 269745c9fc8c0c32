"""Scaled softmax with a residual.

A seed: a small program that torch.compile must compile right.  `fxmorph check` judges it as it is, `fxmorph run`
rewrites it into variants first.
"""

import torch

ORIGIN = "an example: replace it by what your own code does"


def make_inputs():
    return [torch.randn(4, 6), torch.randn(4, 6, requires_grad=True)]


def fn(x, y):
    return torch.softmax(y * 2, -1) + x
