"""Issue 174187: adding zero is dropped although the source is replaced next.

x + 0 is a snapshot of the old data; after x.set_(y) the compiled program read the
new data through the removed addition."""

import torch

ORIGIN = "pytorch/pytorch#174187"
EXPECTED = "finding"
BROKEN_IN = "2.15.0"


def make_inputs():
    return [torch.randn(3, 5), torch.randn(3, 5)]


def fn(weights, incoming):
    snapshot = weights + 0
    weights.set_(incoming)
    return snapshot * 3 - 1
