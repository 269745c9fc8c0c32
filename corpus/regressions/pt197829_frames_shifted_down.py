"""Issue 197829: a history of frames moves down by one, and the clone that keeps old frames from new ones is dropped.

What is left copies between overlapping memory: on a CPU the first frame ends up in all of them."""

import torch

ORIGIN = "pytorch/pytorch#197829"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    return [torch.rand(4, 16, 16)]


def fn(history):
    history[1:] = history[:-1].clone()
    return history.mean(0)
