"""Eager kernels that hold a number in float32: their decompositions are right, and what loses float64 is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

from fxmorph.inductor.pairs import judge_pair
from fxmorph.judge.float32_constants import computes_in_float64, decompose_in_float64, single
from fxmorph.model import Kind, Status, VerdictCode
from fxmorph.torchapi.aot import DECOMPOSED, decomposed_graphs

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten
GRAD = torch.linspace(-1, 1, 12, dtype=torch.float64)
X = torch.linspace(-2.7, 2.6, 12, dtype=torch.float64)
#: 1/6 in float32.
SIXTH = 0.1666666716337204


def traced(function: Callable[..., Any]) -> fx.GraphModule:
    gm = make_fx(function)(GRAD, X)
    gm.recompile()
    return gm


def hard(number: float) -> Callable[..., Any]:
    return lambda grad, x: torch.where((x > -3.0) & (x < 3.0), grad * number, 0.0)


def in_float32(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where((x > -3.0) & (x < 3.0), (grad.float() / 6).double(), 0.0)


def kernel(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return aten.hardsigmoid_backward.default(grad, x)


def test_a_decomposition_is_an_edge_case_where_the_kernel_holds_a_number_in_float32() -> None:
    before, after = traced(kernel), traced(hard(1 / 6))
    verdict = judge_pair(before, after, [GRAD, X], aliases=True, decomposed=True)
    assert (verdict.status, set(verdict.edges)) == (Status.EDGE_CASE, {VerdictCode.FLOAT32_CONSTANT}), verdict.reason
    alone = judge_pair(before, after, [GRAD, X], aliases=True)  # of a pass, which may bring in such a kernel
    assert (alone.status, alone.kinds) == (Status.FINDING, (Kind.VALUE,))


@pytest.mark.parametrize("wrong", [hard(SIXTH), in_float32, hard(0.1667)], ids=["rounded", "float32", "further off"])
def test_a_decomposition_that_loses_float64_is_wrong(wrong: Callable[..., Any]) -> None:
    verdict = judge_pair(traced(hard(1 / 6)), traced(wrong), [GRAD, X], aliases=True, decomposed=True)
    assert (verdict.status, verdict.kinds) == (Status.FINDING, (Kind.VALUE,)), verdict.reason


def test_numbers_that_float32_has_are_not_rounded() -> None:
    assert computes_in_float64([traced(hard(1 / 6)).graph, traced(lambda g, x: g * 0.5 + 1e30 - 3.0).graph])
    assert not computes_in_float64([traced(hard(SIXTH)).graph])
    assert not computes_in_float64([traced(in_float32).graph])
    assert not computes_in_float64([fx.symbolic_trace(hard(1 / 6)).graph])  # which notes nothing


def gradient_graphs(function: Callable[..., Any], *inputs: torch.Tensor) -> list[fx.Graph]:
    with decomposed_graphs() as graphs:
        results = torch.compile(function, backend=DECOMPOSED)(*(x.clone().requires_grad_() for x in inputs))
        sum(r.sum() for r in results).backward()
        return list(graphs)


def test_each_decomposition_that_has_to_do_with_float64_counts_and_the_programs_own_float32_does_not() -> None:
    def beside(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hard = torch.nn.functional.hardsigmoid(x)
        return hard.float() * torch.nn.functional.silu(y), hard

    graphs = gradient_graphs(beside, X, X.float())
    assert decompose_in_float64(graphs) and not computes_in_float64(graphs)
    in_float32_alone = gradient_graphs(lambda y: (torch.nn.functional.hardsigmoid(y),), X.float())
    assert not decompose_in_float64(in_float32_alone)


def test_a_decomposition_that_goes_through_float32_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decompose_in_float64(gradient_graphs(lambda x: (torch.nn.functional.hardsigmoid(x),), X))
    table = select_decomp_table()
    monkeypatch.setitem(table, aten.hardsigmoid_backward.default, lambda g, x: in_float32(g, x))
    assert not decompose_in_float64(gradient_graphs(lambda x: (torch.nn.functional.hardsigmoid(x),), X))


def test_how_far_apart_a_number_in_float32_puts_results() -> None:
    everywhere = torch.ones(12, dtype=torch.bool)
    assert single(GRAD / 6, GRAD * SIXTH, everywhere)
    assert not single(GRAD / 6, GRAD / 6 + 1e-5, everywhere)
    assert not single(GRAD.float() / 6, GRAD.float() * SIXTH, everywhere)
