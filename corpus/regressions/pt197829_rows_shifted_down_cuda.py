"""Issue 197829 on a matrix of many GPU blocks: rows move down by one through a clone that is dropped.

Blocks run in any order, so that one reads rows which another has written already."""

import torch

ORIGIN = "pytorch/pytorch#197829"
EXPECTED = "finding"
BROKEN_IN = "GPU only here (see the CPU file): 2.11.0"
META = {"device": "cuda"}


def make_inputs():
    return [torch.rand(1536, 3072, device="cuda")]


def fn(rows):
    rows[1:] = rows[:-1].clone()
    return rows
