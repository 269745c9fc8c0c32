"""Optimal transport of a cost that is laid out by columns: its gradient is off by as much as it is large, or more.

A plan's rows and columns are normalised in turn.  With every kernel scalar (``cpp.simdlen=1``) the
gradient is right, and so it is of the same cost laid out by rows."""

import torch

ORIGIN = "entropic optimal transport in the log domain (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.rand(37, 31).mT.requires_grad_()]


def fn(cost):
    plan = cost * -20.0
    for _ in range(5):
        plan = plan - plan.logsumexp(1, keepdim=True)
        plan = plan - plan.logsumexp(0, keepdim=True)
    return plan.exp()
