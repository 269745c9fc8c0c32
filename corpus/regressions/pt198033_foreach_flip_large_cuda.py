"""Issue 198033: the _foreach_ self-update on a matrix of many GPU blocks.

Blocks run in any order, so a fused flip reads rows that another block may have
written already."""

import torch

ORIGIN = "pytorch/pytorch#198033"
EXPECTED = "finding"
BROKEN_IN = "GPU only here (see the CPU file): 2.11.0"
META = {"device": "cuda"}


def make_inputs():
    return [torch.rand(1536, 768, device="cuda")]


def fn(kernel):
    torch._foreach_add_([kernel], [kernel.flip(0)])
    return kernel
