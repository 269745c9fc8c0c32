"""Numbers beside Inf and NaN, and whole quotients of operands that nothing rounded, are judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from fxmorph.inductor.pairs import judge_pair
from fxmorph.model import Status

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def with_one(value: float, at: int = 3) -> torch.Tensor:
    x = normal(64)
    x[at] = value
    return x


def wrong_at(program: Program, place: int, by: float) -> Program:
    def wrong(*inputs: torch.Tensor) -> torch.Tensor:
        out = program(*inputs).clone()
        out.view(-1)[place] *= by
        return out

    return wrong


def rows(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(8, 8)


#: A program, its input, and the place of a number that is wrong by so much.
BESIDE: dict[str, tuple[Program, torch.Tensor, int, float]] = {
    "an exponential": (torch.exp, with_one(math.inf), 9, 1.01),
    "softmax of other rows": (lambda x: rows(x).softmax(1), with_one(math.inf), 40, 1.05),
    "sums of other columns": (lambda x: rows(x).sum(0), with_one(math.nan), 5, 1.01),
    "a product of matrices": (lambda x: rows(x) @ rows(x).mT, with_one(math.nan), 63, 1.01),
    "a running sum before it": (lambda x: x.cumsum(0), with_one(math.nan, 5), 2, 1.01),
    "a quotient by zero": (lambda x: x / (x > 0), normal(64), int((normal(64) > 0).nonzero()[1]), 1.02),
    "a half that overflows": (lambda x: torch.cat([x * 60000, x + 3]), normal(64, dtype=torch.half), 100, 1.1),
    "a float that overflows": (lambda x: (x * 100).exp(), normal(64), int(normal(64).abs().argmin()), 1.01),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_wrong_number_beside_inf_or_nan_is_found(name: str, judged: Any) -> None:
    program, x, place, by = BESIDE[name]
    found = judged(program, wrong_at(program, place, by), [x])
    assert any(v.status is Status.FINDING for v in found), found


@pytest.mark.parametrize("name", BESIDE)
def test_numbers_beside_inf_or_nan_may_round(name: str, judged: Any) -> None:
    program, x, *_ = BESIDE[name]
    found = judged(program, lambda x: program(x.double()).to(x.dtype), [x])
    assert not [v for v in found if v.status is Status.FINDING], found


BIG = torch.tensor([2147483648.0, 16777217.0, 1e10, -2147483648.0, 7.5, 1e20, -0.3])
THREE = torch.full((7,), 3.0)
TENTHS = torch.tensor([1.0, 2.0, 6.0, 0.3]), torch.tensor([0.1, 0.1, 0.2, 0.1])


def by_floor(x: Any, y: Any) -> Any:
    return x - torch.floor(x / y) * y


#: Eager, what is compiled for it, and inputs.
LOST: dict[str, tuple[Program, Program, list[torch.Tensor]]] = {
    "remainder": (torch.remainder, by_floor, [BIG, THREE]),
    "remainder by a number": (lambda x: x % 7, lambda x: by_floor(x, 7), [BIG]),
    "fmod": (torch.fmod, lambda x, y: x - torch.trunc(x / y) * y, [BIG, THREE]),
    "remainder of float64": (torch.remainder, by_floor, [torch.tensor([2.0**80, 1e17]).double(), THREE[:2].double()]),
    "remainder of bfloat16": (torch.remainder, lambda x, y: 0 * x, [BIG[4:6].bfloat16(), THREE[4:6].bfloat16()]),
    "remainder of a whole divisor": (torch.remainder, by_floor, [TENTHS[0][2:], TENTHS[1][2:]]),
    "floor_divide": (torch.floor_divide, lambda x, y: (x / y).floor(), [*TENTHS]),
    "div, floor": (
        lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda x, y: (x / y).floor(), [*TENTHS],
    ),
    "div, trunc": (
        lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: (x * y.reciprocal()).trunc(),
        [torch.tensor([49.0, 41.0, 82.0]), torch.tensor([49.0, 41.0, 41.0])],
    ),
    "a number in a half": (
        lambda x: torch.remainder(x, 1.7), lambda x: torch.remainder(x.float(), 1.7).half(),
        [torch.tensor([1.7, -1.7, 3.4, 5.1]).half()],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_a_whole_quotient_of_inputs_is_decided(name: str, judged: Any) -> None:
    eager, compiled, inputs = LOST[name]
    found = judged(eager, compiled, inputs)
    assert any(v.status is Status.FINDING for v in found), found


NEAR: dict[str, tuple[Program, Program, list[torch.Tensor]]] = {
    # What is subtracted is rounded, and small beside the divisor.
    "by the floor of the quotient": (torch.remainder, by_floor, [normal(1000) * 50, normal(1000, seed=1).abs() + 0.5]),
    "in place": (
        lambda x, y: x.clone().remainder_(y), by_floor, [normal(1000) * 50, normal(1000, seed=1).abs() + 0.5],
    ),
    "of what was rounded": (
        lambda x: torch.remainder(x.sin() * 1000, 0.1),
        lambda x: torch.remainder((x.double().sin() * 1000).float(), 0.1),
        [normal(200)],
    ),
    "a quotient of what was rounded": (
        lambda x: (x * 1.1) // 0.1, lambda x: (x.double() * 1.1).float() // 0.1, [torch.arange(-300, 300) / 30],
    ),
    "a large quotient": (torch.floor_divide, lambda x, y: (x / y).floor(), [BIG[[2, 5]], THREE[:2]]),
    "in float64": (
        torch.remainder, by_floor, [normal(100, dtype=torch.float64) * 50, normal(100, seed=1).double().abs() + 0.5],
    ),
    "a 16-bit quotient": (
        torch.floor_divide, lambda x, y: (x.float() / y.float()).floor().half(),
        [normal(100, dtype=torch.half) * 50, normal(100, seed=1, dtype=torch.half)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_what_rounding_does_to_a_remainder_is_none(name: str, judged: Any) -> None:
    eager, compiled, inputs = NEAR[name]
    found = judged(eager, compiled, inputs)
    assert not [v for v in found if v.status is Status.FINDING], found


X, Y, M, N = normal(16), normal(16, seed=1), normal(16) > 0, torch.arange(16)
WRONG_DECISIONS: dict[str, tuple[Program, Program, list[torch.Tensor]]] = {
    "a comparison": (lambda x, y: x > y, lambda x, y: x < y, [X, Y]),
    "masks": (lambda x, y: (x > 0) & (y > 0), lambda x, y: (x > 0) | (y > 0), [X, Y]),
    "a mask with numbers": (lambda m, x: m == x, lambda m, x: m != x, [M, X]),
    "integers with numbers": (lambda i, x: i == x.sin(), lambda i, x: i != x.sin(), [N, X]),
    "all of a mask": (lambda m: m.any(), lambda m: ~m.any(), [M]),
    "a mask in order": (lambda m: m.sort().values, lambda m: m.sort(descending=True).values, [M]),
    "unsigned integers": (lambda i: i - 3, lambda i: i - 4, [N.to(torch.uint8)]),
}


@pytest.mark.parametrize("name", WRONG_DECISIONS)
def test_wrong_truth_values_of_a_pair_are_found(name: str, judged: Any) -> None:
    before, after, inputs = WRONG_DECISIONS[name]
    got = judge_pair(make_fx(before)(*inputs), make_fx(after)(*inputs), inputs, aliases=False)
    assert got.status is Status.FINDING, got
    assert any(v.status is Status.FINDING for v in judged(before, after, inputs))


@pytest.mark.parametrize(
    ("before", "after", "inputs"),
    [
        (lambda x, y: x > y, lambda x, y: y < x, [X, Y]),
        (lambda m: m.any(), lambda m: m.max(), [M]),
        (lambda m, x: m == x, lambda m, x: x == m, [M, X]),
    ],
)
def test_right_truth_values_of_a_pair_are_clean(before: Program, after: Program, inputs: list[torch.Tensor]) -> None:
    assert judge_pair(make_fx(before)(*inputs), make_fx(after)(*inputs), inputs, aliases=False).status is Status.CLEAN


def test_relu_that_loses_nan_is_a_finding(judged: Any) -> None:
    x = with_one(math.nan)
    (verdict,) = judged(F.relu, lambda x: torch.where(x > 0, x, 0.0), [x])
    assert verdict.status is Status.FINDING
