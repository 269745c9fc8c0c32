"""Issue 169253: appends to a list on the class are lost.

A module counts its calls in a list that belongs to the class. Dynamo did not
carry the side effect out of the graph."""

import torch

ORIGIN = "pytorch/pytorch#169253"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0"


class CallLog:
    steps = []


def make_inputs():
    CallLog.steps = []
    return [torch.randn(3)]


def fn(x):
    CallLog.steps.append(x.size(0))
    return x * 0.5


def drive(g, x):
    for _ in range(3):
        x = g(x)
    return x, sum(CallLog.steps)
