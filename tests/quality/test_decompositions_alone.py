"""Decompositions alone, on the samples of torch's own tests: wrong ones are found without a compile, right ones not."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.inventory import Decomposition, listed
from fxmorph.inductor.pairs import PairVerdict, judge_pair
from fxmorph.inductor.sampled_calls import PARTS, graph_of, sampled_calls
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Kind, Status
from fxmorph.torchapi.decompose import decompose_calls
from fxmorph.torchapi.operator_samples import TURNS, sample_calls

pytestmark = pytest.mark.usefixtures("torch_quiet")

#: Units of decompositions, and the operator of torch's tests that calls them.
UNITS = {
    "decomposition.aten.leaky_relu.default": "nn.functional.leaky_relu",
    "decomposition.aten.leaky_relu_backward.default": "nn.functional.leaky_relu",
    "decomposition.aten.logsumexp.default": "logsumexp",
    "decomposition.aten.mse_loss.default": "nn.functional.mse_loss",
    "decomposition.aten.mse_loss_backward.default": "nn.functional.mse_loss",
    "decomposition.aten.hardtanh.default": "nn.functional.hardtanh",
}
#: Those of one part, which takes seconds to draw, on every third sample of each dtype; slow are all on all.
FEW = [
    *((name, 3) for name in UNITS if "leaky" in name),
    *(pytest.param(name, 1, marks=pytest.mark.slow) for name in UNITS),
]


def handle(name: str) -> Decomposition:
    found = listed(name).handle
    assert isinstance(found, Decomposition)
    return found


def part(name: str) -> int:
    return zlib.crc32(UNITS[name].encode()) % PARTS


@cache
def graphs(name: str) -> list[StageGraph]:
    made = []
    for turn in range(TURNS):
        for call in sample_calls({handle(name).operator}, part(name), PARTS, turn):
            with contextlib.suppress(Exception):  # what fake tensors do not take
                made.append(graph_of(call, f"{call.overload} {call.dtype}"))
    return made


def judged(name: str, graph: StageGraph, function: Callable[..., Any]) -> PairVerdict:
    assert graph.inputs is not None
    after = clone_module(graph.gm)
    decompose_calls(after, handle(name).operator, function)
    return judge_pair(graph.gm, after, graph.inputs.rebuild(), aliases=True)


@pytest.mark.parametrize(("name", "each"), FEW)
def test_a_right_decomposition_differs_on_no_sample(name: str, each: int) -> None:
    assert len(graphs(name)) > 6
    for graph in graphs(name)[::each]:
        got = judged(name, graph, handle(name).function)
        assert got.status is not Status.FINDING, (graph.part, got)


def scaled(right: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        out = right(*args, **kwargs)
        return out * (1.2 if out.dtype == torch.bfloat16 else 1.01)

    return call


@pytest.mark.parametrize(("name", "each"), FEW)
def test_a_wrong_value_is_found_on_most_samples(name: str, each: int) -> None:
    floats = [g for g in graphs(name)[::each] if g.inputs is not None and not empty(g)]
    verdicts = [judged(name, graph, scaled(handle(name).function)).status for graph in floats]
    assert verdicts.count(Status.FINDING) >= 0.8 * len(verdicts), verdicts


def empty(graph: StageGraph) -> bool:
    assert graph.inputs is not None
    return any(isinstance(t, torch.Tensor) and not t.numel() for t in graph.inputs.rebuild())


def test_a_wrong_dtype_and_a_wrong_shape_are_found() -> None:
    name = "decomposition.aten.leaky_relu.default"
    right = handle(name).function
    graph = next(g for g in graphs(name) if "float32" in g.part and not empty(g))
    assert Kind.DTYPE in judged(name, graph, lambda *a, **k: right(*a, **k).double()).kinds
    assert Kind.SHAPE in judged(name, graph, lambda *a, **k: right(*a, **k)[None]).kinds


def test_writing_an_argument_is_found() -> None:
    name = "decomposition.aten.leaky_relu.default"
    graph = next(g for g in graphs(name) if "float32" in g.part and not empty(g))
    right = handle(name).function
    got = judged(name, graph, lambda x, *a: right(x, *a) + x.add_(1) * 0)
    assert got.status is Status.FINDING and Kind.MUTATION in got.kinds


def looked_at(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> tuple[int, int]:
    """(Calls that the function is found to treat as the operator does, calls that are judged as graphs.)"""
    name = "decomposition.aten.leaky_relu.default"
    item = listed(name)
    planted = replace(handle(name), function=function)
    monkeypatch.setattr("fxmorph.inductor.sampled_calls.listed", lambda _: replace(item, handle=planted))
    got = list(sampled_calls([item.unit], part(name), 0))
    return sum(s.graph is None for s in got), sum(s.graph is not None for s in got)


def test_calls_that_come_out_the_same_need_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    right = handle("decomposition.aten.leaky_relu.default").function
    same, judged_as_graphs = looked_at(monkeypatch, right)
    assert same >= 5 and judged_as_graphs >= 1


def test_calls_that_come_out_otherwise_by_a_rounding_need_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    right = handle("decomposition.aten.leaky_relu.default").function
    same, judged_as_graphs = looked_at(monkeypatch, lambda *a, **k: right(*a, **k) * 3 / 3)
    assert same >= 5 and judged_as_graphs >= 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda out, x: out * 1.01,
        lambda out, x: out * (1 + 2.0**-23),
        lambda out, x: out.double(),
        lambda out, x: out[None],
        lambda out, x: torch.stack([out, out], -1)[..., 0],
        lambda out, x: out + x.add_(1) * 0,
        lambda out, x: (out, out),
    ],
    ids=["value", "another constant", "dtype", "shape", "strides", "written", "structure"],
)
def test_what_comes_out_otherwise_is_judged_as_a_graph(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any, Any], Any]
) -> None:
    right = handle("decomposition.aten.leaky_relu.default").function
    same, judged_as_graphs = looked_at(monkeypatch, lambda x, *a, **k: wrong(right(x, *a, **k), x))
    name = "decomposition.aten.leaky_relu.default"
    calls = sample_calls({handle(name).operator}, part(name), PARTS, 0)
    given = [call.args[0] for call in calls]
    alike = sum(t.numel() <= 1 or t.dtype in (torch.float16, torch.bfloat16) for t in given)
    assert judged_as_graphs >= 5 and same <= alike  # of nothing, of one element, in 16 bits some of it is the same


def test_what_is_raised_or_declined_is_judged_as_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, lambda *a, **k: NotImplemented)[0] == 0
    assert looked_at(monkeypatch, lambda *a, **k: [][0])[0] == 0
