"""Of many calls the few that are most unlike each other.

What is overlooked hangs on one argument, or on two together: each trait of an argument, and each pair of traits, is
wanted once (pairwise testing: Cohen et al., 1997).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from fxmorph.torchapi.dispatch import tree_leaves

T = TypeVar("T")

#: What a trait that no chosen call has counts for, beside a pair of them; what those of a call on nothing count for.
ALONE, ON_NOTHING = 4, 0.2


def most_unlike(calls: Sequence[T], arguments: Callable[[T], Any], count: int) -> list[T]:
    """At most ``count`` of ``calls``, the first one that is on some elements first.

    ``arguments`` gives those of a call, by place or name.
    """
    traits = [frozenset(_traits((), arguments(call))) for call in calls]
    pairs = [frozenset(itertools.combinations(sorted(each, key=repr), 2)) for each in traits]
    weights = [ON_NOTHING if on_nothing(arguments(call)) else 1.0 for call in calls]
    known: set[Hashable] = set()
    chosen: list[int] = []
    left = list(range(len(calls)))

    def worth(i: int) -> tuple[float, int]:
        new = ALONE * len(traits[i] - known) + len(pairs[i] - known) if chosen else 1
        return weights[i] * new, -i

    while left and len(chosen) < count:
        best = max(left, key=worth)
        left.remove(best)
        chosen.append(best)
        known |= traits[best] | pairs[best]
    return [calls[i] for i in chosen]


def on_nothing(arguments: Any) -> bool:
    """Whether a tensor among them has no element."""
    return any(isinstance(value, torch.Tensor) and not value.numel() for value in tree_leaves(arguments))


def _traits(place: tuple[Any, ...], value: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, torch.Tensor):
        yield (*place, "rank", value.dim())
        yield (*place, value.dtype)
        yield (*place, "sizes", min(value.shape, default=2) if min(value.shape, default=2) < 2 else 2)
        yield (*place, "contiguous", value.layout == torch.strided and value.is_contiguous())
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _traits((*place, name), part)
    elif isinstance(value, (list, tuple)):
        yield (*place, "length", len(value))
        for i, part in enumerate(value):
            yield from _traits((*place, i), part)
    else:
        yield (*place, repr(value))
