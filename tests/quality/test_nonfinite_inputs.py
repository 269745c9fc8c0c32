"""What operators do with NaN and Inf is judged; of what loses them only the folds that PyTorch accepts are excused.

The compiler is damaged in its table of decompositions, so that few of these need a C++ compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from decompositions_exchanged import instead, judge

from fxmorph.model import Kind, Status, VerdictCode
from fxmorph.torchapi.compiling import cpp_compiler

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]


def draw(seed: int) -> torch.Tensor:
    x = torch.randn(6, 10, generator=torch.Generator().manual_seed(seed))
    x[0, 1], x[1, 2], x[2, 3], x[4] = math.nan, math.inf, -math.inf, math.nan
    return x.roll(seed, 1)


X, Y = draw(0), draw(3)


LOST: dict[str, tuple[Program, list[Any], AbstractContextManager[Any], Kind]] = {
    "maximum": (
        torch.maximum, [X, Y], instead("maximum.default", lambda a, b: torch.where(a > b, a, b)), Kind.NONFINITE,
    ),
    "clamp of NaN": (
        lambda x: x.clamp(-1, 1), [X],
        instead("clamp.default", lambda x, lo, hi: torch.where(x > lo, torch.where(x < hi, x, hi), lo)), Kind.NONFINITE,
    ),
    "amin": (lambda x: x.amin(1), [X], instead("amin.default", lambda x, dim: x.nan_to_num(9.0).min(dim[0]).values),
             Kind.NONFINITE),
    "isnan": (lambda x: x.isnan(), [X], instead("isnan.default", lambda x: x.abs() > 9), Kind.VALUE),
    "comparison": (
        lambda x, y: x != y, [X, X], instead("ne.Tensor", lambda a, b: (a > b) | (a < b)), Kind.VALUE,
    ),
    "numbers beside them": (
        lambda x: x.relu() * 1.5, [X], instead("relu.default", lambda x: x.clamp(min=0.01)), Kind.VALUE,
    ),
    "-Inf alone": (
        lambda x: x.softmax(1), [X.nan_to_num(0.0, 0.0, -math.inf)],
        instead("_softmax.default", lambda x, dim, half: x.exp() / (x.exp().sum(dim, keepdim=True) + x.amin() * 0)),
        Kind.NONFINITE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_of_nan_and_inf_is_found(name: str) -> None:
    program, inputs, damage, kind = LOST[name]
    got = judge(program, inputs, damage)
    assert (got.status, got.kinds) == (Status.FINDING, (kind,)), got.reason


def elementwise(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    return x + y, x - x, x / y, x.exp(), x.sigmoid(), x.round(), torch.fmax(x, y), x.relu(), x.nan_to_num(), x.isinf()


def reduced(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    return x.sum(1), x.mean(0), x.nansum(1), x.var(1), x.amax(0), x.max(1), x.softmax(1), x.argmin(1), x @ y.T


def in_order(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    return x.sort(1), x.cummax(1), x.topk(2, 1).values, x.cumsum(0), x.nanmedian(1)


@pytest.mark.parametrize("program", [elementwise, reduced, in_order])
def test_a_right_compiler_is_not_accused(program: Program) -> None:
    assert judge(program, [X, Y], nullcontext()).status in (Status.CLEAN, Status.TIE)
    assert judge(program, [X.nan_to_num(1.0, 2.0, -math.inf), Y.abs()], nullcontext()).status in (
        Status.CLEAN, Status.TIE, Status.ILL_CONDITIONED,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_accepted_folds_are_edge_cases_by_their_unit() -> None:
    def attention(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = ((q @ q.transpose(-2, -1)) / 2.0 + mask).softmax(-1)
        return weights @ q

    q, mask = torch.randn(1, 2, 6, 4, generator=torch.Generator().manual_seed(1)), torch.zeros(1, 1, 6, 6)
    mask[..., 2, :] = -math.inf
    got = judge(attention, [q, mask], nullcontext(), "inductor")
    codes = {v.code for v in got.verdicts if v.status is Status.EDGE_CASE}
    # A release may compute what another one folds.
    assert got.status is Status.CLEAN or codes == {VerdictCode.ACCEPTED_FOLD}, got.reason
