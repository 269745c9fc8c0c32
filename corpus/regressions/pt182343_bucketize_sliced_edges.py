"""Issue 182343: bucketize with boundaries that are a slice.

The inner edges of a histogram are cut from the full edge tensor. On a GPU the
offset of the slice was lost."""

import torch

ORIGIN = "pytorch/pytorch#182343"
EXPECTED = "finding"
BROKEN_IN = "GPU only: 2.11.0 (inputs on cuda); CPU releases agree"


def make_inputs():
    return [torch.tensor([-3, 1, 4, 8, 15]), torch.arange(-2, 15)]


def fn(edges, values):
    return torch.bucketize(values, edges[2:])
