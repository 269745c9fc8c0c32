"""Issue 185382: steps of a descent with corrected moments, whose number is read from a tensor.

A step breaks at ``item()`` and goes on with a number.  What caches keep of the first number answers for the next ones;
with caches off it is right."""

import torch

ORIGIN = "descent with corrected moments (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(5), torch.randn(5)]


def step(place, slope, mean, square, steps):
    steps.add_(1)
    mean.mul_(0.8).add_(slope, alpha=0.2)
    square.mul_(0.95).addcmul_(slope, slope, value=0.05)
    count = steps.item()
    width = (square / (1 - 0.95**count)).sqrt().add_(1e-7)
    place.addcdiv_(mean, width, value=-0.05 / (1 - 0.8**count))


def fn(place, slope):
    place, steps = place.clone(), torch.zeros(())
    mean, square = torch.zeros_like(place), torch.zeros_like(place)
    for _ in range(4):
        step(place, slope, mean, square, steps)
    return place
