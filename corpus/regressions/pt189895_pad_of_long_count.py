"""Issue 189895: padding a count loses the boundary select.

A long bool mask is counted by a split reduction and the count gets a zero on each
side; the fused kernel wrote the count in the padded cells too."""

import torch
import torch.nn.functional as F

ORIGIN = "pytorch/pytorch#189895"
EXPECTED = "finding"
BROKEN_IN = "GPU only: 2.11.0"
META = {"device": "cuda"}


def make_inputs():
    mask = torch.ones(1, 24576, device="cuda", dtype=torch.bool)
    return [mask]


def fn(mask):
    lengths = mask.sum(dim=-1, dtype=torch.int32)
    return F.pad(lengths, (1, 1))
