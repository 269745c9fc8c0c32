"""Pinning the model to eager."""

from __future__ import annotations

import torch


def downgraded(operator: str, dtype: torch.dtype) -> bool:
    """Whether an operator on a dtype is not to be modelled at bit level."""
    return False
