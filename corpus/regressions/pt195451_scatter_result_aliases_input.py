"""Issue 195451: the result of a scatter and the input share memory.

A new ledger is made by slice_scatter and copied into the old one. The two are
separate tensors in eager; compiled, a later change of the result changes the
ledger too."""

import torch

ORIGIN = "pytorch/pytorch#195451"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0 2.8.0 2.10.0 2.11.0 2.13.0 2.15.0"


def make_inputs():
    return [torch.arange(10.0).view(2, 5), torch.full((2, 2), 7.0)]


def fn(ledger, entries):
    updated = torch.slice_scatter(ledger, entries, dim=1, start=2, end=4)
    ledger.copy_(updated)
    return updated


def drive(g, ledger, entries):
    updated = g(ledger, entries)
    updated.add_(100.0)
    return updated, ledger.sum()
