"""Which elements of memory strided tensors cover."""

from __future__ import annotations

import numpy as np
import torch

from fxmorph.torchapi.storages import storage_key

#: Overlap of two tensors whose extents meet is decided exactly (by element addresses) up to this many elements.
EXACT_OVERLAP_NUMEL = 1 << 16


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two strided tensors have an element at the same address."""
    if a.layout != torch.strided or b.layout != torch.strided or not a.numel() or not b.numel():
        return False
    if storage_key(a) != storage_key(b):
        return False
    (a_first, a_end), (b_first, b_end) = _extent(a), _extent(b)
    if a_end <= b_first or b_end <= a_first:
        return False
    if max(a.numel(), b.numel()) > EXACT_OVERLAP_NUMEL:
        return True
    return bool(np.isin(_addresses(a), _addresses(b)).any())


def same_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors cover the same memory in the same order."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def overlaps_itself(t: torch.Tensor) -> bool:
    """Whether two elements of a strided tensor lie in one place."""
    extent = 1
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1 and stride < extent:
            places = torch.arange(max(_reach(t), 1)).as_strided(t.shape, t.stride())
            return t.numel() > 0 and places.unique().numel() < t.numel()
        extent += (size - 1) * stride
    return False


def _reach(t: torch.Tensor) -> int:
    """Elements of memory from the first that is covered to the last."""
    return 1 + sum((n - 1) * s for s, n in zip(t.stride(), t.shape, strict=True))


def _extent(t: torch.Tensor) -> tuple[int, int]:
    """The bytes of the storage from the first that is covered up to the last."""
    first = int(t.storage_offset()) * t.element_size()
    return first, first + _reach(t) * t.element_size()


def _addresses(t: torch.Tensor) -> np.ndarray:
    elements = np.zeros((), dtype=np.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        elements = elements[..., None] + np.arange(size) * stride
    start: np.ndarray = (elements.ravel() + int(t.storage_offset())) * t.element_size()
    return (start[:, None] + np.arange(t.element_size())).ravel()
