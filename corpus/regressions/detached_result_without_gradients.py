"""A result and the same cut off from autograd, returned together with other results.

Called without gradients, compiled code returns one object for both; eager returns two."""

import torch

ORIGIN = "detection heads that return what they decided (own spelling); no public issue found"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(7, 6, requires_grad=True)]


def fn(scores):
    probability = scores.softmax(1)
    return scores.argmax(1), probability, scores.detach() > 0, probability.detach()
