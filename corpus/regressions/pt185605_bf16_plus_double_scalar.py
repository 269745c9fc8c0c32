"""Issue 185605: bfloat16 plus a 0-d float64 tensor on a GPU.

The scalar must be converted like a Python number and the sum rounded to bfloat16;
the kernel rounded it differently."""

import torch

ORIGIN = "pytorch/pytorch#185605"
EXPECTED = "finding"
BROKEN_IN = "GPU only: 2.11.0"
META = {"device": "cuda"}


def make_inputs():
    x = torch.tensor([0.3, 0.0, -0.7, 1.0, -1.0, 0.05], device="cuda")
    shift = torch.tensor(-0.3, device="cuda", dtype=torch.float64)
    return [x.to(torch.bfloat16), shift]


def fn(x, shift):
    return torch.add(x, shift)
