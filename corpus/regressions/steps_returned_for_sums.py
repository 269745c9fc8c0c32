"""A training step that returns row sums and its counter: compiled, both results are the counter.

The copy makes an argument require gradients, and the counter, written too, is returned.  AOTAutograd then gives the
counter for the first result as well, silently, with its shape; without either write the results are right."""

import torch

ORIGIN = "optimiser state beside a step counter (own spelling); no public issue found"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(4, 5, requires_grad=True), torch.zeros(()), torch.randn(4, 5)]


def fn(weight, steps, momentum):
    momentum.copy_(weight)
    return weight.sum(1), steps.add_(1)
