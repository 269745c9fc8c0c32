"""Jacobi iteration with two buffers swapped by copy_, and counters reset.

The residual is taken before the buffers change; the accumulator is averaged
into the result and only then zeroed."""

import torch

ORIGIN = "iterative solver with double buffering (own spelling)"


def make_inputs():
    return [torch.randn(6, 6), torch.zeros(6, 6), torch.full((6,), 4.0)]


def fn(current, previous, counter):
    average = counter / 2
    residual = current - previous
    previous.copy_(current)
    inner = 0.25 * (previous[:-2, 1:-1] + previous[2:, 1:-1] + previous[1:-1, :-2] + previous[1:-1, 2:])
    current[1:-1, 1:-1].copy_(inner)
    counter.zero_()
    return residual.abs().amax(), average


def drive(g, current, previous, counter):
    return g(current, previous, counter), g(current, previous, counter)
