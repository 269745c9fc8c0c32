"""Values binned by bucketize and searchsorted against learned edges.

Edges are the cumulative sum of positive widths, as in spline flows; the bin
index picks the width and the left edge of each value."""

import torch

ORIGIN = "neural spline flow, bin lookup (own spelling)"


def make_inputs():
    return [torch.rand(5, 7), torch.rand(9) + 0.1]


def fn(x, raw):
    width = raw / raw.sum()
    edges = torch.cat([torch.zeros(1, device=raw.device), width.cumsum(0)])
    place = torch.searchsorted(edges[1:-1].contiguous(), x)
    same = torch.bucketize(x, edges[1:-1].contiguous(), right=False)
    inside = (x - edges[place]) / width[place]
    return inside, place, (place == same).all()
