"""Issue 94777: an in-place op reaches a value computed before it.

log() is taken of a 0-d running evidence, then the evidence is replaced by its
own square root in place. The returned logarithm must use the old value; the
compiled kernel read the memory after the write."""

import torch

ORIGIN = "pytorch/pytorch#94777"
EXPECTED = "finding"
BROKEN_IN = "2.1.2"


def make_inputs():
    return [torch.tensor(6.25)]


def fn(evidence):
    score = torch.sqrt(evidence)
    evidence.sqrt_()
    return score
