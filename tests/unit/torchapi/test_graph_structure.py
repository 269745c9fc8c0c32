"""Graphs that make the same calls, however arguments are written."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import fx

from fxmorph.torchapi.factories import device_of, make_on
from fxmorph.torchapi.graph_structure import meaning, structure

aten = torch.ops.aten
F = torch.nn.functional


def short(x: torch.Tensor) -> torch.Tensor:
    return torch.split(F.dropout(x, 0.5, False), 2)[0].sum(1) + torch.softmax(x, 1)[0]


def long(x: torch.Tensor) -> torch.Tensor:
    halves = torch.split(F.dropout(x, p=0.5, training=False, inplace=False), 2, dim=0)
    return halves[0].sum(dim=1) + torch.softmax(input=x, dim=1)[0]


def another_dim(x: torch.Tensor) -> torch.Tensor:
    halves = torch.split(F.dropout(x, p=0.5, training=False, inplace=False), 2, dim=1)
    return halves[0].sum(dim=1) + torch.softmax(input=x, dim=1)[0]


@pytest.mark.parametrize(("other", "same"), [(long, True), (another_dim, False)])
def test_names_and_defaults_do_not_count(other: Callable[..., torch.Tensor], same: bool) -> None:
    one, two = fx.symbolic_trace(short).graph, fx.symbolic_trace(other).graph
    assert structure(one) != structure(two)
    assert (meaning(one) == meaning(two)) is same


def test_a_keyword_that_is_not_the_default_counts() -> None:
    def graph(**kwargs: object) -> fx.Graph:
        made = fx.Graph()
        x = made.placeholder("x")
        made.output(made.call_function(aten.add.Tensor, (x, x), kwargs))  # type: ignore[arg-type]
        return made

    assert meaning(graph()) == meaning(graph(alpha=1)) != meaning(graph(alpha=2))


def test_names_of_attributes_do_not_count() -> None:
    def graph(*names: str) -> fx.Graph:
        made = fx.Graph()
        x = made.placeholder("x")
        held = [made.get_attr(name) for name in names]
        made.output(made.call_function(aten.addmm.default, (held[0], x, held[1])))
        return made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the graph has no module with the attributes
        assert meaning(graph("a", "b")) == meaning(graph("c", "d")) != meaning(graph("a", "a"))
        assert structure(graph("a", "b")) != structure(graph("c", "d"))


def test_what_makes_tensors_of_none_is_told_where() -> None:
    cuda = {"device": torch.device("cuda")}
    assert device_of(aten.full.default, ([2], 1.0), {}, "cuda") == cuda
    assert device_of(torch.zeros, (2, 3), {}, "cuda") == cuda
    assert device_of(aten.full.default, ([2], 1.0), {}, "cpu") == {}
    assert device_of(aten.mul.Tensor, (), {}, "cuda") == {}
    graph = fx.Graph()
    x = graph.placeholder("x")
    like = graph.call_function(aten.zeros_like.default, (x,))
    made = graph.call_function(aten.arange.default, (4,), {"device": torch.device("cpu")})
    graph.output((like, made))
    make_on("cuda", graph)
    assert not like.kwargs and made.kwargs == cuda
