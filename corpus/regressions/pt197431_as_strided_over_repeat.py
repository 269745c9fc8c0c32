"""Issue 197431: as_strided over a slice of a repeated row leaves its buffer.

The repeated table has all cells; a stepped slice of it is widened to full rows
again. Inductor kept only the visible slice and read past it."""

import torch

ORIGIN = "pytorch/pytorch#197431"
EXPECTED = "finding"
BROKEN_IN = "2.6.0 2.8.0 2.10.0 2.11.0 2.13.0"


def make_inputs():
    return [torch.randn(1, 2)]


def fn(row):
    table = row.repeat(4, 3)
    sparse = table[:, ::3]
    return torch.as_strided(sparse, (4, 6), table.stride())
