"""Calls of an operator with one thing otherwise: torch's own tests have few sizes, and many switches in one position.

A flag is turned, a number is one more or less, a size is one more or 1; or whole numbers that go together (a window and
its step, strides, paddings) are other small ones.  What eager refuses of it nobody has to judge.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from fxmorph.torchapi.fake import unlogged

#: Changes of one call.
CHANGES = 2
_SMALL = (1, 2, 3)
#: What a shape function says that cannot answer without values, or is missing.
_NO_ANSWER = (
    DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException,
    UnsupportedOperatorException, NotImplementedError,
)  # fmt: skip


def varied(call: Any, key: str) -> Any:
    """The call (nested arguments) with some things otherwise; the same for equal keys."""
    rng = random.Random(key)
    leaves, spec = tree_flatten(call)
    for change in rng.sample(_CHANGES, CHANGES):
        leaves = change(leaves, rng)
    return tree_unflatten(leaves, spec)


def with_other_numbers(call: Any, key: str) -> Any | None:
    """The call with half of its whole numbers small other ones; None where it has fewer than two."""
    rng = random.Random(key)
    leaves, spec = tree_flatten(call)
    places = [i for i, leaf in enumerate(leaves) if type(leaf) is int]
    if len(places) < 2:
        return None
    chosen = rng.sample(places, max(len(places) // 2, 2))
    return tree_unflatten([rng.choice(_SMALL) if i in chosen else leaf for i, leaf in enumerate(leaves)], spec)


def described(call: Any) -> str:
    """All of a call but the values of its tensors."""

    def said(leaf: Any) -> Any:
        return f"{leaf.dtype} {tuple(leaf.shape)} {leaf.stride()}" if isinstance(leaf, torch.Tensor) else repr(leaf)

    return str(tree_map(said, call))


def passes_shape_check(called: Callable[..., Any], call: tuple[Any, list[Any], dict[str, Any]]) -> bool:
    """Whether torch's shape functions take the call (first argument, others, those by name).

    Eager may look at less: of an empty tensor many operators return a copy, whatever dimension they are asked for.
    """
    try:
        with torch.no_grad(), unlogged(), _fake_mode(called) as fake:
            first, rest, keywords = tree_map(lambda v: fake(v) if isinstance(v, torch.Tensor) else v, call)
            called(first, *rest, **keywords)
    except _NO_ANSWER:
        return True
    except Exception:
        return False
    return True


@contextlib.contextmanager
def _fake_mode(called: Callable[..., Any]) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """What makes a tensor without values: one on device meta, which takes a fifth of the time, but for convolutions,
    whose sizes only fake tensors look at.
    """
    if "conv" in str(called):
        with FakeTensorMode() as mode:
            yield mode.from_tensor
    else:
        yield lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")


def _one_otherwise(leaves: list[Any], rng: random.Random, wanted: Any, change: Callable[[Any], Any]) -> list[Any]:
    places = [i for i, leaf in enumerate(leaves) if wanted(leaf)]
    if not places:
        return leaves
    place = rng.choice(places)
    return [change(leaf) if i == place else leaf for i, leaf in enumerate(leaves)]


def _turned_flag(leaves: list[Any], rng: random.Random) -> list[Any]:
    return _one_otherwise(leaves, rng, lambda leaf: type(leaf) is bool, lambda flag: not flag)


def _one_more(leaves: list[Any], rng: random.Random) -> list[Any]:
    step = rng.choice((1, -1))
    return _one_otherwise(leaves, rng, lambda leaf: type(leaf) is int, lambda number: number + step)


def _other_size(leaves: list[Any], rng: random.Random) -> list[Any]:
    """A dimension, counted from the last, is larger by one, or 1, in all tensors that have its size there.

    Where another tensor has that size elsewhere, as the weights of channels do, nothing changes: some operators take
    such calls in eager without a look.
    """
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors:
        return leaves
    first = max(tensors, key=lambda t: t.dim())
    dim = -rng.randint(1, min(first.dim(), 3))
    size, single = first.shape[dim], rng.random() < 0.2

    def concerned(t: torch.Tensor) -> bool:
        return t.dim() >= -dim and t.shape[dim] == size

    if not size or any(size in t.shape for t in tensors if not concerned(t)):
        return leaves

    def resized(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not concerned(leaf):
            return leaf
        with torch.no_grad():
            begin = leaf.narrow(dim, 0, 1)
            made = begin.clone() if single else torch.cat([leaf, begin], dim)
        return made.requires_grad_(leaf.requires_grad)

    return [resized(leaf) for leaf in leaves]


_CHANGES: tuple[Callable[[list[Any], random.Random], list[Any]], ...] = (
    _turned_flag, _one_more, _other_size, _other_size,
)  # fmt: skip
