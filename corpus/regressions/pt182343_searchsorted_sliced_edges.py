"""Issue 182343: searchsorted ignores where a sliced boundary tensor starts.

Document ends are the offsets without their first entry. On a GPU the lowering read
the boundaries from the start of the whole tensor."""

import torch

ORIGIN = "pytorch/pytorch#182343"
EXPECTED = "finding"
BROKEN_IN = "GPU only: 2.11.0 (inputs on cuda); CPU releases agree"


def make_inputs():
    return [torch.tensor([0, 5, 6, 11, 17]), torch.arange(17)]


def fn(offsets, tokens):
    document = torch.searchsorted(offsets[1:], tokens, right=True)
    return document
