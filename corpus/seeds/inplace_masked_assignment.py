"""Sensor table cleaned in place by boolean masks.

Out-of-range cells are set to a constant, one column is clipped through a view,
and rows without any valid cell get the column means."""

import torch

ORIGIN = "data cleaning step inside a training loop (own spelling)"


def make_inputs():
    table = (torch.randn(5, 7) * 3).t()
    table[2] = 9.0
    return [table, torch.rand(7) > 0.5]


def fn(table, trusted):
    bad = table.abs() > 4
    table[bad] = 0.0
    table[:, 1].clamp_(-1.0, 1.0)
    empty = bad.all(dim=1, keepdim=True)
    mean = table.sum(0, keepdim=True) / (~bad).sum(0, keepdim=True).clamp(min=1)
    table.copy_(torch.where(empty, mean, table))
    table.masked_fill_(~trusted[:, None] & (table < -2), -2.0)
    return bad.sum(), mean
