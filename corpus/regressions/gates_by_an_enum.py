"""A gate that a dictionary holds under the member of an enumeration: the second member gets the gate of the first.

Nothing guards which member is asked for, so that the code of the first call answers all later ones."""

import enum

import torch
import torch.nn.functional as F

ORIGIN = "gated feed-forward layer with a choice of gates (own spelling)"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"
META = {"no_grad": True}


class Gate(enum.Enum):
    GLU = "glu"
    SWIGLU = "swiglu"


GATES = {Gate.GLU: torch.sigmoid, Gate.SWIGLU: F.silu}


def make_inputs():
    return [torch.randn(4, 16)]


def fn(x, gate):
    a, b = x.chunk(2, dim=-1)
    return GATES[gate](a) * b


def drive(g, x):
    return [g(x, gate) for gate in Gate]
