"""Issue 198033: a _foreach_ update reads the rows that it is writing.

Each matrix gets its own mirror image added. The flip was fused into the in-place
update, so the second half read rows that had changed."""

import torch

ORIGIN = "pytorch/pytorch#198033"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0"


def make_inputs():
    return [torch.rand(6, 5), torch.rand(4, 7)]


def fn(kernel, filt):
    mirrored = [kernel.flip(0), filt.flip(1)]
    torch._foreach_add_([kernel, filt], mirrored)
    return kernel, filt
