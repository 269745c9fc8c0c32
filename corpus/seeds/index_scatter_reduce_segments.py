"""Segment max, mean and softmax by scatter_reduce.

Scores of edges are normalised within the segment of their target node, with the
segment maximum subtracted first."""

import torch

ORIGIN = "graph attention: softmax over incoming edges (own spelling)"


def make_inputs():
    return [torch.randn(9), torch.tensor([0, 2, 1, 0, 3, 2, 2, 3, 0])]


def fn(score, segment):
    low = torch.full((4,), -1e9, device=score.device)
    top = low.scatter_reduce(0, segment, score, reduce="amax")
    e = torch.exp(score - top[segment])
    total = torch.zeros(4, device=score.device).scatter_add(0, segment, e)
    mean = torch.zeros(4, device=score.device)
    mean = mean.scatter_reduce(0, segment, score, reduce="mean", include_self=False)
    return e / total[segment], mean
