"""A result and the same cut off from autograd, returned together with other results, in training, from the caches.

A program that is compiled anew returns two tensors; one that AOTAutograd's cache answers returns one object for both,
so that the second needs a gradient too."""

import torch

ORIGIN = "detection heads that return what they decided (own spelling); no public issue found"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(7, 6, requires_grad=True)]


def fn(scores):
    probability = scores.softmax(1)
    return scores.argmax(1), probability, scores.detach() > 0, probability.detach()
