"""Strides that can be seen."""

from __future__ import annotations

from collections.abc import Sequence


def visible_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Those of dimensions that are longer than one: nothing hangs on the stride of others."""
    return tuple(step for size, step in zip(shape, strides, strict=True) if size > 1)
