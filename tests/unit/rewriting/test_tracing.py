"""Recording what a rule does, on real values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.programs.graph import function_of, print_graph
from fxmorph.rewriting.tracing import TracingError, trace

pytestmark = pytest.mark.usefixtures("torch_quiet")


def traced(function: Callable[..., Any], *values: torch.Tensor, **scalars: Any) -> tuple[str, torch.Tensor]:
    """The printed graph and the value computed while recording."""
    graph = fx.Graph()
    names = ["x", "y"][: len(values)]
    given = {n: (graph.placeholder(n), v.clone()) for n, v in zip(names, values, strict=True)}
    out, _ = trace(function, graph, given, scalars)
    graph.output((out.node,))
    return print_graph(graph), out.value


X = torch.arange(6.0).reshape(2, 3)

RECORDED: dict[str, Callable[..., Any]] = {
    "operators": lambda x: -(x + 1) * 2 // 3 - 1 / (x + 1) ** 2,
    "reflected operators": lambda x: 2 - x + 3 * x,
    "comparisons": lambda x: torch.where((x > 1) & (x <= 4) | (x == 0), x, -x),
    "methods and functions": lambda x: torch.softmax(x.mT.reshape(-1), 0).sum(0, keepdim=True),
    "slices": lambda x: x[:, 1:][..., ::2] + x[0, 0],
    "assignment": lambda x: assign(x),
    "in-place operators": lambda x: inplace(x),
    "shape arithmetic": lambda x: x.reshape(x.shape[1], x.shape[0]) / x.numel(),
    "a loop over sizes": lambda x: sum((x[i] for i in range(x.shape[0])), torch.zeros(3)),
    "new tensors": lambda x: torch.cat([x, torch.ones(1, 3, dtype=x.dtype), torch.zeros_like(x)]),
    "several results": lambda x: x.max(1).values + x.sort(1)[0][:, 0],
    "parts in a list": lambda x: torch.cat(list(x.chunk(3, 1)), 1),
    "parts as they come": lambda x: torch.cat(x.chunk(3, 1), 1),
    "unbound rows": lambda x: torch.stack(x.unbind(0)),
    "strides": lambda x: x.as_strided(x.shape, x.stride(), x.storage_offset()) + 0,
    "a transposed attribute": lambda x: x.T + x.mT,
    "out": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
}


def assign(x: Any) -> Any:
    y = x.clone()
    y[0] = y[1] * 2
    y[:, 1] = 7
    return y


def inplace(x: Any) -> Any:
    y = x.clone()
    y += 1
    y *= x
    y.add_(x)
    return y


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_graph_computes_what_was_computed(name: str) -> None:
    text, value = traced(RECORDED[name], X)
    assert torch.equal(value, RECORDED[name](X.clone()))
    assert torch.equal(function_of(text)(X.clone())[0], value)


READS: dict[str, Callable[..., Any]] = {
    "item": lambda x: x * x.sum().item(),
    "tolist": lambda x: x * x.tolist()[0][0],
    "bool": lambda x: x if x.sum() > 0 else -x,
    "float": lambda x: x * float(x[0, 0]),
    "numpy": lambda x: x * x.numpy()[0, 0],
}


@pytest.mark.parametrize("name", READS)
def test_reading_values_is_refused(name: str) -> None:
    with pytest.raises((TracingError, TypeError)):
        traced(READS[name], X)


def test_scalars_are_constants_of_the_graph() -> None:
    text, _ = traced(lambda x, k: x * k, X, k=2.5)
    assert "x * 2.5" in text


def test_only_one_tensor_may_be_returned() -> None:
    with pytest.raises(TracingError, match="not one tensor"):
        traced(lambda x: (x, x), X)


def test_an_unknown_method_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        traced(lambda x: x.no_such_method(), X)


def test_the_argument_itself_may_be_returned() -> None:
    assert traced(lambda x: x, X)[0] == "def fn(x):\n    return (x,)\n"
