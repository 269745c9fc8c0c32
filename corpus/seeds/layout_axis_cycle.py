"""Axial smoothing of a cube: each step works on the last axis, then the axes are cycled.

One axis is skipped by cycling twice in a row, so two equal rotations of
three axes meet with nothing between them."""

import torch

ORIGIN = "axial blocks that bring one axis after the other to the end (own spelling)"


def make_inputs():
    return [torch.randn(5, 5, 5), torch.randn(5)]


def cycle(x):
    return x.permute(2, 0, 1)


def smooth(x):
    return (x + torch.roll(x, 1, -1)) / 2


def fn(volume, gain):
    rows = cycle(cycle(smooth(volume)))
    columns = cycle(cycle(smooth(rows)))
    return cycle(cycle(columns)) * gain.sum()
