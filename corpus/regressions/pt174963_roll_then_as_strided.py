"""Issue 174963: as_strided on a rolled channels_last tensor sees another layout.

Eager roll keeps the channels_last strides; the decomposition gave a contiguous
result, and as_strided exposed the difference as values."""

import torch

ORIGIN = "pytorch/pytorch#174963"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.10.0 2.11.0"


def make_inputs():
    frames = torch.arange(72.0).reshape(3, 4, 3, 2)
    return [frames.to(memory_format=torch.channels_last)]


def fn(frames):
    moved = torch.roll(frames, shifts=1, dims=0)
    return torch.as_strided(moved, (6, 8), (5, 1), 0)
