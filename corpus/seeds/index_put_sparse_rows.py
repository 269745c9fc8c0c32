"""Rows of a memory bank overwritten and accumulated by index.

Distinct rows are replaced by index assignment; counts are accumulated with
index_put_(accumulate=True), where indices may repeat."""

import torch

ORIGIN = "memory bank of a contrastive learner (own spelling)"


def make_inputs():
    rows = torch.tensor([4, 0, 7])
    seen = torch.tensor([1, 1, 3, 1, 5])
    return [torch.randn(9, 5), rows, torch.randn(3, 5), torch.zeros(9), seen]


def fn(bank, rows, features, counts, seen):
    old = bank[rows]
    bank[rows] = 0.9 * old + 0.1 * features
    counts.index_put_((seen,), torch.tensor(1.0, device=counts.device), accumulate=True)
    similarity = features @ bank.t()
    return similarity, old
