"""Gradients clipped by their global norm, in place, and by value.

The norm of norms is turned into a coefficient clamped at one."""

import torch

ORIGIN = "gradient clipping in training loops (own spelling)"
META = {"no_grad": True}


def make_inputs():
    return [[torch.randn(4, 3), torch.randn(17), torch.randn(1, 5)], 1.5]


def fn(grads, max_norm):
    norms = torch.stack([g.norm() for g in grads])
    total = torch.linalg.vector_norm(norms)
    coefficient = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for g in grads:
        g.mul_(coefficient)
    limited = [g.clamp(-0.2, 0.2) for g in grads]
    return total, limited
