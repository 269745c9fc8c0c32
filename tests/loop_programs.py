"""Programs whose loops the scheduler merges, or lets share a row of memory, that tests plant faults for."""

from __future__ import annotations

import torch


def below_the_diagonal(x: torch.Tensor) -> torch.Tensor:
    n = torch.arange(x.shape[-1])
    return torch.where(n[:, None] >= n, x * 2, -1.0)


def two_scores(x: torch.Tensor) -> torch.Tensor:
    """Two rows of a thread's own, the first of which is read when the second is made."""
    a, b = (x - x.amax(-1, keepdim=True)).exp(), x.sigmoid()
    return a / a.sum(-1, keepdim=True) + b / b.sum(-1, keepdim=True)
