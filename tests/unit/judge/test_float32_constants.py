"""Eager kernels that hold a number in float32: their decompositions are right, and what loses float64 is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from fxmorph.inductor.pairs import judge_pair
from fxmorph.judge.float32_constants import computes_in_float64, single
from fxmorph.model import Kind, Status, VerdictCode

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


def test_only_what_float64_results_are_computed_from_counts() -> None:
    beside = traced(lambda g, x: (g * (1 / 6), g.float() * SIXTH))
    behind = traced(lambda g, x: (g * (1 / 6) + (g.float() * SIXTH).double(), x))
    assert computes_in_float64([beside.graph]) and not computes_in_float64([behind.graph])
    assert not computes_in_float64([traced(lambda g, x: g.float() * 0.5).graph])  # no float64 result at all


def test_how_far_apart_a_number_in_float32_puts_results() -> None:
    everywhere = torch.ones(12, dtype=torch.bool)
    assert single(GRAD / 6, GRAD * SIXTH, everywhere)
    assert not single(GRAD / 6, GRAD / 6 + 1e-5, everywhere)
    assert not single(GRAD.float() / 6, GRAD.float() * SIXTH, everywhere)
