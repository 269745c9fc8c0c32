"""Two overlapping slices of one activation, both written inside of the program, in training.

AOTAutograd makes both anew from their common memory, and counts the gradients of written arguments before it does:
"outs_to_grad length (2) != tangents length (3)".  With one of the writes alone the program compiles."""

import torch

ORIGIN = "fused projections whose slices overlap (own spelling); no public issue found"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    shared = torch.randn(5, 8, requires_grad=True) * 1.5
    return [shared[:, :5], shared[:, 3:]]


def fn(left, right):
    left.add_(1)
    right.mul_(0.5)
    return left * right
