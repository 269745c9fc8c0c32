"""A running average in place, called with one decay after another, with caches on.

The second decay has code compiled that holds for any; what caches keep of it answers the third call with numbers of
the second one.  With caches off it is right."""

import torch

ORIGIN = "exponential moving average (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.zeros(33, 5), torch.randn(33, 5), 0.9]


def fn(average, x, decay):
    average.mul_(decay).add_(x, alpha=1 - decay)
    return average.norm()


def drive(fn, average, x, decay):
    return torch.stack([fn(average, x * (k + 1), decay) for k in range(3)]), average
