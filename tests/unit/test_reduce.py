"""Smaller programs that still show the finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import fx

from fxmorph.graph import calls, function_of, print_graph, read_graph
from fxmorph.inputs import InputSet
from fxmorph.reduce import Reduced, Reducer

pytestmark = pytest.mark.usefixtures("torch_quiet")
LONG = """def fn(x, y, z):
    a = x + y
    b = torch.sin(a)
    c = b * 2
    d = c.sum(0)
    e = torch.cos(z)
    f = torch.exp(e)
    g = d - f
    return (g, c, e)
"""
VALUES = [torch.randn(4, 3), torch.randn(4, 3), torch.randn(3)]


def has(*names: str) -> Callable[[fx.Graph, InputSet], bool]:
    """Whether the graph still calls all of these; candidates must run."""

    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        function_of(print_graph(graph))(*inputs.rebuild())
        here = {getattr(n.target, "__name__", n.target) for n in calls(graph)}
        return set(names) <= here

    return still


def reduced(still: Callable[[fx.Graph, InputSet], bool], text: str = LONG, seconds: float = 30.0) -> Reduced:
    return Reducer(read_graph(text), InputSet.snapshot(VALUES), still, seconds).run()


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "sub", "sum"])
def test_one_guilty_call_is_left_alone(name: str) -> None:
    best = reduced(has(name))
    assert len(calls(best.graph)) == 1
    assert has(name)(best.graph, best.inputs)


def test_two_guilty_calls_keep_what_is_between_them_or_inputs() -> None:
    best = reduced(has("sin", "exp"))
    assert len(calls(best.graph)) <= 3


def test_unused_inputs_go() -> None:
    best = reduced(has("cos"))
    assert len([n for n in best.graph.nodes if n.op == "placeholder"]) == len(best.inputs.rebuild()) == 1


def test_what_replaces_a_node_carries_its_value() -> None:
    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        if not has("sum")(graph, inputs):
            return False
        d = next(n for n in graph.nodes if n.target == "sum")
        source = d.args[0]
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        if source in holders:
            given = inputs.rebuild()[holders.index(source)]
            return torch.equal(given, torch.sin(VALUES[0] + VALUES[1]) * 2)
        return True

    assert len(calls(reduced(still).graph)) == 1


def test_writes_that_matter_are_kept() -> None:
    body = ("a = x.clone()", "b = a[0]", "w = b.add_(1)", "c = a * 2", "d = z + 1", "return (c, d)")
    text = "def fn(x, y, z):\n" + "".join(f"    {line}\n" for line in body)

    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        return has("add_", "mul")(graph, inputs)

    best = reduced(still, text)
    assert has("add_", "mul")(best.graph, best.inputs)
    assert not has("add")(best.graph, best.inputs)


def test_nothing_is_lost_where_nothing_can_go() -> None:
    best = reduced(lambda graph, inputs: False)
    assert print_graph(best.graph) == print_graph(read_graph(LONG))


def test_without_budget_the_program_is_returned_as_it_is() -> None:
    best = reduced(has("sin"), seconds=-1.0)
    assert (print_graph(best.graph), best.tests) == (LONG, 0)


def test_a_candidate_that_breaks_is_not_kept() -> None:
    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        if len(calls(graph)) < 4:
            raise RuntimeError("the compiler fell over")
        return True

    assert len(calls(reduced(still).graph)) >= 4
