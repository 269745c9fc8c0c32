"""Decompositions alone, on the samples of torch's own tests: wrong ones are found without a compile, right ones not."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.inventory import Decomposition, listed
from fxmorph.inductor.pairs import PairVerdict, judge_pair
from fxmorph.inductor.sampled_calls import PARTS, TURNS, decomposes, sampled_graphs
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Kind, Status
from fxmorph.torchapi.decompose import decompose_calls

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
#: Those of one part, which takes seconds to draw.
FEW = [name if "leaky" in name else pytest.param(name, marks=pytest.mark.slow) for name in UNITS]


def handle(name: str) -> Decomposition:
    found = listed(name).handle
    assert isinstance(found, Decomposition)
    return found


@cache
def drawn(operator: str) -> list[StageGraph]:
    units = [listed(name).unit for name, of in UNITS.items() if of == operator]
    part = zlib.crc32(operator.encode()) % PARTS
    return [graph for turn in range(TURNS) for graph in sampled_graphs(units, part, turn)]


def graphs(name: str) -> list[StageGraph]:
    return [g for g in drawn(UNITS[name]) if decomposes(g, listed(name).unit)]


def judged(name: str, graph: StageGraph, function: Callable[..., Any]) -> PairVerdict:
    assert graph.inputs is not None
    after = clone_module(graph.gm)
    decompose_calls(after, handle(name).operator, function)
    return judge_pair(graph.gm, after, graph.inputs.rebuild(), aliases=True)


@pytest.mark.parametrize("name", FEW)
def test_a_right_decomposition_differs_on_no_sample(name: str) -> None:
    assert graphs(name)
    for graph in graphs(name):
        got = judged(name, graph, handle(name).function)
        assert got.status is not Status.FINDING, (graph.part, got)


def scaled(right: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        out = right(*args, **kwargs)
        return out * (1.2 if out.dtype == torch.bfloat16 else 1.01)

    return call


@pytest.mark.parametrize("name", FEW)
def test_a_wrong_value_is_found_on_most_samples(name: str) -> None:
    floats = [g for g in graphs(name) if g.inputs is not None and not empty(g)]
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
