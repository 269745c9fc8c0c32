"""Inputs with other strides, offsets and shared memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from fxmorph.torchapi.dispatch import tree_flatten, tree_leaves, tree_unflatten
from fxmorph.torchapi.storages import storage_key


def relaid(
    values: Sequence[Any], rng: random.Random, written: Collection[int] = frozenset(), apart: bool = False
) -> list[Any]:
    """``values`` laid out otherwise: permuted or channels-last, with gaps, at an offset, expanded, two in one memory.

    Shapes and dtypes stay; values too, but where memory is made to overlap: in tensors that are expanded, and
    in one of two floating-point ones that share some of it.  That is only done to tensors that do not
    require grad and are not ``written`` by the program (positions among the tensors in ``values``).  None come to
    share memory where they have to stay ``apart``.
    Tensors that share memory or are expanded already are left alone.
    """
    leaves, spec = tree_flatten(list(values))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    shared = Counter(storage_key(leaves[k]) for k in places)
    free = [k for k in places if _plain(leaves[k]) and shared[storage_key(leaves[k])] == 1]
    held = {k for n, k in enumerate(places) if n in written or leaves[k].requires_grad}
    with torch.no_grad():
        pairs = [(a, b) for a in free for b in free if a < b and not apart and _may_share(leaves[a], leaves[b])]
        if pairs and rng.random() < 0.5:
            a, b = rng.choice(pairs)
            overlapping = a not in held and b not in held and leaves[a].is_floating_point() and rng.random() < 0.5
            leaves[a], leaves[b] = _together(leaves[a], leaves[b], overlapping)
            free = [k for k in free if k not in (a, b)]
        for k in free:
            ways = list(_ways(leaves[k], rng, k not in held))
            leaves[k] = rng.choice(ways)().requires_grad_(leaves[k].requires_grad)
    made: list[Any] = tree_unflatten(leaves, spec)
    return made


def layout_of(values: Any) -> list[tuple[Any, ...]]:
    """Strides, offset and number of its memory of every strided tensor."""
    memories: dict[int, int] = {}
    return [
        (t.stride(), t.storage_offset(), memories.setdefault(storage_key(t), len(memories)))
        for t in tree_leaves(values)
        if isinstance(t, torch.Tensor) and t.layout == torch.strided
    ]


def _plain(t: torch.Tensor) -> bool:
    if type(t) is not torch.Tensor or t.layout != torch.strided:
        return False
    return t.ndim > 0 and t.numel() > 0 and 0 not in t.stride()


def _may_share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device and not a.requires_grad and not b.requires_grad


def _ways(t: torch.Tensor, rng: random.Random, may_overlap: bool) -> Iterator[Callable[[], torch.Tensor]]:
    """The layouts that a tensor may get."""
    inside_out = list(range(t.ndim))[::-1]
    shuffled = rng.sample(inside_out, t.ndim)
    yield lambda: _laid(t, shuffled)
    yield lambda: _laid(t, inside_out, step=2)
    yield lambda: _laid(t, inside_out, offset=3)
    if t.ndim > 1:
        yield lambda: _laid(t, [t.ndim - 2, t.ndim - 1, *inside_out[2:]])
    if t.ndim in (4, 5):
        yield lambda: _laid(t, [1, *inside_out[:-2], 0])
    long = [d for d in range(t.ndim) if t.shape[d] > 1]
    if may_overlap and long:
        d = rng.choice(long)
        yield lambda: t.narrow(d, 0, 1).clone().expand(t.shape)


def _laid(t: torch.Tensor, order: Sequence[int], step: int = 1, offset: int = 0) -> torch.Tensor:
    """A copy whose dimensions lie in memory in ``order``, the innermost first."""
    strides, size = [0] * t.ndim, step
    for d in order:
        strides[d], size = size, size * t.shape[d]
    made = torch.zeros(size + offset, dtype=t.dtype, device=t.device).as_strided(t.shape, strides, offset)
    made.copy_(t.detach())
    return made


def _together(a: torch.Tensor, b: torch.Tensor, overlapping: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in one memory, one after the other; if ``overlapping`` the second begins inside the first."""
    common = min(a.numel(), b.numel()) // 2 if overlapping else 0
    memory = torch.cat([a.detach().reshape(-1), b.detach().reshape(-1)[common:]])
    return memory[: a.numel()].view(a.shape), memory[a.numel() - common :].view(b.shape)
