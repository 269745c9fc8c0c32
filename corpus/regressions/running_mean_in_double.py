"""Running mean of a stream whose counts are kept in double: the compiled program never counts.

The number of samples and their sum are tensors without dims in float64, which each batch
adds to in place.  Both writes are lost; without the pass that puts tensors in the place of
Python's numbers (``TENSORIFY_PYTHON_SCALARS=0``) they are made, and so they are by
torch 2.10.0 and 2.15.0."""

import torch

ORIGIN = "statistics of observations as reinforcement learning keeps them (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    count = torch.tensor(3.0, dtype=torch.float64)
    total = torch.tensor(1.5, dtype=torch.float64)
    return [torch.randn(5), count, total]


def fn(batch, count, total):
    count.add_(batch.numel())
    total.add_(batch.double().sum())
    mean = total / count
    return batch - mean.float(), mean


def drive(g, batch, count, total):
    return g(batch, count, total), g(batch * 2, count, total), count, total
