"""Issue 183898: gradient of slice_scatter for an interior slice.

The middle of a sequence is replaced by a patch. The gradient of the sequence must
be zero there and one outside; the lowering got it wrong."""

import torch

ORIGIN = "pytorch/pytorch#183898"
EXPECTED = "finding"
BROKEN_IN = "2.6.0 2.8.0 2.10.0 2.11.0"


def make_inputs():
    sequence = torch.arange(1.0, 9.0).requires_grad_()
    return [sequence, torch.tensor([0.5, -0.5, 1.5, 2.5], requires_grad=True)]


def fn(sequence, patch):
    edited = torch.slice_scatter(sequence, patch, dim=0, start=2, end=6)
    return edited.sum()
