"""Tangents of two steps of an orbit: they do not compile where the states lie apart in memory.

Tracing ``jvp`` gives a row's view a tangent of another layout than its own ("INTERNAL ASSERT FAILED:
has_fw_view"), and leaves forward-mode AD open: what is differentiated forward later in the process raises."""

import torch

ORIGIN = "sensitivity of an integrator (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.randn(8, 4)[::2, 1:3]]


def step(state):
    place, speed = state[..., 0], state[..., 1]
    return torch.stack([place + 0.1 * speed, speed - 0.1 * torch.sin(place)], dim=-1)


def fn(state):
    return torch.func.jvp(lambda s: step(step(s)), (state,), (torch.ones_like(state),))
