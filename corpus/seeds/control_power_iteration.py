"""The largest eigenvalue of a matrix by repeated products, as many as a loop counts.

A ``while_loop`` whose state is a count, a vector and an estimate; body and condition are graphs of their own."""

import torch
from torch._higher_order_ops.while_loop import while_loop

ORIGIN = "spectral normalisation with a while_loop (own spelling)"


def make_inputs():
    half = torch.randn(11, 11)
    return [half @ half.mT / 11 + torch.eye(11), torch.rand(11) + 0.1]


def fn(matrix, start):
    def unfinished(step, vector, value):
        return step < 6

    def better(step, vector, value):
        product = matrix @ vector
        return step + 1, product / product.norm(), (vector * product).sum()

    begun = start / start.norm()
    none = torch.zeros((), dtype=torch.int64, device=start.device)
    steps, vector, value = while_loop(unfinished, better, (none, begun, start.sum()))
    return steps, vector * 2, value, (matrix @ vector - value * vector).abs()
