"""Sums of columns by group on several threads: the scatter adds elsewhere, further on for each place in a tile.

The groups are a column of a table, so that the loop is tiled, and threads add to the same places, so that it adds
atomically.  One thread is right."""

import torch

ORIGIN = "pytorch/pytorch#191837"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(157, 250), torch.randint(0, 60, (250, 3))]


def fn(columns, groups):
    sums = torch.zeros(90, columns.shape[0], device=columns.device)
    return sums.index_put((groups[:, 0],), columns.mT, accumulate=True)
