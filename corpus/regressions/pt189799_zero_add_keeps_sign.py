"""Issue 189799: an added zero is folded away and minus zero survives.

trunc(-0.4) is -0.0 and -0.0 + 0 is +0.0 in eager. Without the addition the
quotient becomes -inf. Only the sign of zero is at stake: an edge case."""

import torch

ORIGIN = "pytorch/pytorch#189799"
EXPECTED = "edge-case"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"


def make_inputs():
    return [torch.tensor([[-0.4, -0.7], [-0.2, -0.3]])]


def fn(drift):
    whole = torch.trunc(drift)
    return 4.0 / (whole + torch.zeros_like(whole))
