"""Order statistics along both dimensions: medians, the k-th smallest, running extremes, ranks in a sorted table.

Values differ, so that none of them is a matter of choice."""

import torch

ORIGIN = "robust statistics of sensor data (own spelling)"


def make_inputs():
    values = torch.randperm(9 * 14).reshape(9, 14).float() * 0.37 - 20
    return [values, torch.sort(torch.randn(9, 6), 1).values, torch.randperm(9 * 14).reshape(9, 14)]


def fn(values, edges, whole):
    middle = [values.median(1), values.median(), values.kthvalue(3, 1), whole.kthvalue(2, 0), values.nanmedian(0)]
    running = [values.cummax(1), values.cummin(0), whole.cummin(1), values.logcumsumexp(1), values.cumprod(0)]
    best = [values.topk(4), values.topk(3, 0, largest=False), values.sort(0, descending=True), whole.argsort(1)]
    places = [torch.searchsorted(edges, values / 9), torch.searchsorted(edges, values, right=True)]
    column = values[:, 0].contiguous()
    places += [torch.bucketize(values, edges[0]), torch.searchsorted(column, values[3], sorter=column.argsort())]
    spread = torch.full((14,), -50.0, device=values.device)
    reduced = [spread.scatter_reduce(0, whole[0] % 14, values[0], how) for how in ("amax", "amin", "mean", "prod")]
    return *middle, *running, *best, *places, *reduced
