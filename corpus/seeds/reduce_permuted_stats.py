"""Channel statistics of a permuted activation.

Sum, mean, variance, maximum and norm over dimensions that are not adjacent in
memory; the activation is a view with a storage offset."""

import torch

ORIGIN = "activation monitoring hooks (own spelling)"


def make_inputs():
    base = torch.randn(4, 5, 3, 7)
    return [base[1:].permute(3, 0, 2, 1)]


def fn(x):
    total = x.sum(dim=(0, 3))
    mean = x.mean(dim=(1, 2), keepdim=True)
    var = x.var(dim=(0, 2))
    top = x.amax(dim=(0, 3)) - x.amin(dim=(0, 3))
    norm = torch.linalg.vector_norm(x - mean, dim=(0, 3))
    return total, var, top, norm
