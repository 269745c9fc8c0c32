"""Issue 194345: remainder and fmod of operands with a huge ratio.

Phases are wrapped by tiny periods. The kernel goes through the rounded quotient
and leaves the interval that the result must lie in."""

import torch

ORIGIN = "pytorch/pytorch#194345"
EXPECTED = "finding"
BROKEN_IN = "GPU only: 2.11.0"
META = {"device": "cuda"}


def make_inputs():
    phase = torch.tensor([3e9, 5e4, 1e38, 7e12], device="cuda")
    period = torch.tensor([2e-19, 7e-8, 3e-44, 1e-15], device="cuda")
    return [phase, period]


def fn(phase, period):
    return torch.remainder(phase, period), torch.fmod(phase, period)
