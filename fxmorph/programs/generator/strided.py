"""How views lie in memory: strides and offsets, computed as torch does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fxmorph.programs.generator.shapes import Shape, strides_of


@dataclass(frozen=True)
class Layout:
    """Shape, strides and offset of a tensor in its storage, in elements; strides None where they are not known."""

    shape: Shape
    strides: tuple[int, ...] | None
    offset: int = 0
    #: Two indices may name one element: such a tensor must not be written to.
    overlap: bool = False

    @property
    def contiguous(self) -> bool:
        if self.strides is None:
            return False
        wanted = strides_of(self.shape)
        pairs = zip(self.shape, self.strides, wanted, strict=True)
        return 0 in self.shape or all(n == 1 or s == w for n, s, w in pairs)

    @property
    def in_order(self) -> bool:
        """Whether strides are those of a fresh tensor, of dimensions of size 1 too: results then have such ones."""
        return self.strides == strides_of(self.shape)


def contiguous(shape: Shape) -> Layout:
    return Layout(shape, strides_of(shape))


def _picked(strides: Sequence[int] | None, dims: Sequence[int]) -> tuple[int, ...] | None:
    return None if strides is None else tuple(strides[d] for d in dims)


def permuted(a: Layout, dims: Sequence[int]) -> Layout:
    return Layout(tuple(a.shape[d] for d in dims), _picked(a.strides, dims), a.offset, a.overlap)


def dropped(a: Layout, dim: int, index: int = 0) -> Layout:
    """``a`` at one index of a dimension, which goes (``select``; ``squeeze`` at a size of 1)."""
    rest = [d for d in range(len(a.shape)) if d != dim]
    offset = a.offset + index * (a.strides[dim] if a.strides else 0)
    return Layout(tuple(a.shape[d] for d in rest), _picked(a.strides, rest), offset, a.overlap)


def inserted(a: Layout, dim: int) -> Layout:
    """``a`` with a new dimension of size 1 there."""
    strides = None
    if a.strides is not None:
        step = a.shape[dim] * a.strides[dim] if dim < len(a.shape) else 1
        strides = (*a.strides[:dim], step, *a.strides[dim:])
    return Layout((*a.shape[:dim], 1, *a.shape[dim:]), strides, a.offset, a.overlap)


def sliced(a: Layout, dim: int, start: int, stop: int, step: int = 1) -> Layout:
    """``a[start:stop:step]`` along a dimension; bounds are inside."""
    size = max(0, -(-(stop - start) // step))
    shape = (*a.shape[:dim], size, *a.shape[dim + 1 :])
    if a.strides is None:
        return Layout(shape, None, 0, a.overlap)
    strides = (*a.strides[:dim], a.strides[dim] * step, *a.strides[dim + 1 :])
    return Layout(shape, strides, a.offset + start * a.strides[dim], a.overlap)


def expanded(a: Layout, shape: Shape) -> Layout:
    """``a`` expanded to a shape that it broadcasts to."""
    front = len(shape) - len(a.shape)
    grown = [i < front or a.shape[i - front] != n for i, n in enumerate(shape)]
    overlap = a.overlap or any(g and n > 1 for g, n in zip(grown, shape, strict=True))
    if a.strides is None:
        return Layout(shape, None, 0, overlap)
    strides = tuple(0 if g else a.strides[i - front] for i, g in enumerate(grown))
    return Layout(shape, strides, a.offset, overlap)


def diagonal(a: Layout, offset: int, dim1: int, dim2: int) -> Layout:
    """``a.diagonal(offset, dim1, dim2)``; the diagonal is not empty."""
    n = min(a.shape[dim1] + min(offset, 0), a.shape[dim2] - max(offset, 0))
    rest = [d for d in range(len(a.shape)) if d not in (dim1, dim2)]
    shape = (*(a.shape[d] for d in rest), n)
    if a.strides is None:
        return Layout(shape, None, 0, a.overlap)
    start = a.offset + (offset * a.strides[dim2] if offset >= 0 else -offset * a.strides[dim1])
    return Layout(shape, (*(a.strides[d] for d in rest), a.strides[dim1] + a.strides[dim2]), start, a.overlap)


def unfolded(a: Layout, dim: int, size: int, step: int) -> Layout:
    """``a.unfold(dim, size, step)``."""
    count = (a.shape[dim] - size) // step + 1
    shape = (*a.shape[:dim], count, *a.shape[dim + 1 :], size)
    # The compiler refuses writes to windows that step by less than their size, be there one alone.
    overlap = a.overlap or step < size
    if a.strides is None:
        return Layout(shape, None, 0, overlap)
    strides = (*a.strides[:dim], a.strides[dim] * step, *a.strides[dim + 1 :], a.strides[dim])
    return Layout(shape, strides, a.offset, overlap)


def viewed(a: Layout, shape: Shape) -> Layout | None:
    """``a.view(shape)``, or None where torch refuses or the strides are not known."""
    if a.strides is None:
        return None
    if 0 in a.shape:
        return Layout(shape, strides_of(shape), a.offset, a.overlap)
    strides = _view_strides(a.shape, a.strides, shape)
    return None if strides is None else Layout(shape, strides, a.offset, a.overlap)


def _view_strides(old: Shape, strides: tuple[int, ...], new: Shape) -> tuple[int, ...] | None:
    """Chunks of dimensions that lie in one row are cut anew, from the last one on (``computeStride_impl``)."""
    out = [0] * len(new)
    at = len(new) - 1
    base = strides[-1] if old else 1
    elements = made = 1
    for i in range(len(old) - 1, -1, -1):
        elements *= old[i]
        if i == 0 or (old[i - 1] != 1 and strides[i - 1] != elements * base):
            while at >= 0 and (made < elements or new[at] == 1):
                out[at] = made * base
                made *= new[at]
                at -= 1
            if made != elements:
                return None
            if i > 0:
                base = strides[i - 1]
                elements = made = 1
    if not old:
        return (1,) * len(new) if prod(new) == 1 else None
    return tuple(out) if at == -1 else None
