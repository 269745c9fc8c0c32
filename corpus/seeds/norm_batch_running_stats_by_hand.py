"""Batch statistics blended into running buffers in place, written out.

The running mean and variance are plain input tensors changed with mul_/add_
and lerp_, then used to normalise the same batch."""

import torch

ORIGIN = "synchronised-batch-norm-like code without the process group"


def make_inputs():
    return [torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)]


def fn(x, running_mean, running_var):
    n = x.size(0) * x.size(2)
    mean = x.mean(dim=(0, 2))
    var = x.var(dim=(0, 2), unbiased=False)
    running_mean.mul_(0.9).add_(mean, alpha=0.1)
    running_var.lerp_(var * (n / (n - 1)), 0.1)
    inv = torch.rsqrt(running_var + 1e-5)
    return (x - running_mean[None, :, None]) * inv[None, :, None]
