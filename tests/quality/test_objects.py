"""Tensors that objects hold are judged as any other; objects themselves, and offsets of memory nobody shares, are not.

The compiler is damaged in its table of decompositions, and where it makes views anew: nothing needs a C++ compiler.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch
from decompositions_exchanged import instead, judge
from torch._functorch._aot_autograd import runtime_wrappers

from fxmorph.model import Status

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


class Cache:
    """Without an equality of its own."""

    def __init__(self) -> None:
        self.layers: list[torch.Tensor] = []


@dataclass
class Output:
    logits: torch.Tensor
    cache: Cache


class Named(NamedTuple):
    first: torch.Tensor
    rest: dict[str, torch.Tensor]


def cached(x: torch.Tensor) -> Output:
    cache = Cache()
    cache.layers.append(x.sin() * 1.5)
    return Output(x + 1, cache)


def named(x: torch.Tensor) -> Named:
    return Named(x * 2, OrderedDict(sine=x.sin(), twice=x * 2))


def attribute(x: torch.Tensor) -> Cache:
    cache = Cache()
    cache.last = (x.sin(), 3)  # type: ignore[attr-defined]
    return cache


@pytest.mark.parametrize(
    ("program", "place"), [(cached, "cache.layers[0]"), (named, "out1"), (attribute, "out0.last[0]")]
)
def test_a_wrong_value_that_an_object_holds_is_found(program: Program, place: str) -> None:
    got = judge(program, [X], instead("sin", lambda x: x.cos()))
    assert got.status is Status.FINDING and place in got.reason, got.reason
    assert judge(program, [X], nullcontext()).status is Status.CLEAN


def test_a_tensor_that_an_argument_holds_afterwards_is_judged() -> None:
    def kept(x: torch.Tensor, into: list[torch.Tensor]) -> torch.Tensor:
        into.append(x.sin())
        return x + 1

    assert judge(lambda x: (kept(x, held := []), held), [X], instead("sin", lambda x: x.cos())).status is Status.FINDING


@pytest.mark.parametrize("made", [object, Cache, lambda: iter([1, 2]), lambda: {object()}])
def test_objects_that_say_nothing_are_no_difference(made: Callable[[], Any]) -> None:
    assert judge(lambda x: (x.sin(), made()), [X], nullcontext()).status is Status.CLEAN


@pytest.mark.parametrize(
    "program", [lambda x: x.exp(), lambda x: x.exp().mT, lambda x: {"power": x.exp(), "twice": (x * 2, x)}]
)
def test_where_memory_of_its_own_begins_is_no_difference(program: Program) -> None:
    beyond_a_gap = instead("exp", lambda x: torch.cat([x.new_zeros(2, 6), torch.e**x])[2:])
    assert judge(program, [X], beyond_a_gap).status is Status.CLEAN


def test_where_memory_of_its_own_begins_in_eager_is_no_difference() -> None:
    assert judge(lambda x: torch.cat([x.cos(), x.exp()])[4:], [X], nullcontext()).status is Status.CLEAN


def earlier(out: torch.Tensor) -> torch.Tensor:
    """``out`` from one element earlier in its memory, where a row has room for that."""
    return out.as_strided(out.size(), out.stride(), out.storage_offset() - 1) if out.storage_offset() else out


@pytest.fixture
def views_made_earlier() -> Iterator[None]:
    """AOTAutograd makes results that are views of inputs and of other results begin one element too early."""
    made = runtime_wrappers.gen_alias_from_base
    with patch.object(runtime_wrappers, "gen_alias_from_base", lambda *a, **kw: earlier(made(*a, **kw))):
        yield


def written_view(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x[1:3]


#: Elements are equal, so that nothing but the place in memory tells the views apart.
EQUAL = torch.ones(6)
#: Views of intermediates are made anew by AOTAutograd where they have gradients, else by the graph.
EQUAL_WITH_GRADIENT = torch.ones(6, requires_grad=True)


@pytest.mark.parametrize(
    ("program", "x"),
    [(lambda x: x[2:4], EQUAL), (lambda x: ((y := x + 1)[1:3], y), EQUAL_WITH_GRADIENT), (written_view, EQUAL)],
)
@pytest.mark.usefixtures("views_made_earlier")
def test_where_a_view_of_memory_that_others_see_begins_is_found(program: Program, x: torch.Tensor) -> None:
    got = judge(program, [x], nullcontext(), backend="aot_eager")
    assert got.status is Status.FINDING and "offset" in got.reason, got.reason
