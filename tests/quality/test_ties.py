"""Which of equal elements an operator takes is judged where that is promised, and where no rounding decides it.

The compiler is damaged in its table of decompositions, so that nothing needs a C++ compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from decompositions_exchanged import instead, judge
from torch._inductor import decomposition

from fxmorph.model import Kind, Status
from fxmorph.torchapi.planting import planted_decomposition

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
TIED = torch.randint(0, 3, (6, 20), generator=torch.Generator().manual_seed(0)).float()
SUMMED = float(TIED[0].sum())


def last(name: str) -> AbstractContextManager[Any]:
    """``argmax`` or ``argmin`` as one that takes the last of equal elements."""
    sign = -1.0 if name == "argmin" else 1.0

    def index(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
        assert dim is not None
        place = torch.arange(x.shape[dim]).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
        best = (x * sign).amax(dim, keepdim=True) == x * sign
        return torch.where(best, place, -1).amax(dim, keepdim)

    return planted_decomposition(name, index)


@contextmanager
def also_equal(name: str) -> Iterator[None]:
    """``gt`` or ``lt`` as one that holds for equal numbers too."""

    def compared(a: torch.Tensor, b: Any) -> torch.Tensor:
        return (a - b).sign() >= 0 if name == "gt" else (a - b).sign() <= 0

    packet = getattr(torch.ops.aten, name)
    with patch.dict(decomposition.decompositions, {packet.Tensor: compared, packet.Scalar: compared}):
        decomposition.fast_random_decomps.cache_clear()
        yield
    decomposition.fast_random_decomps.cache_clear()


def half_away(x: torch.Tensor) -> torch.Tensor:
    return (x.abs() + 0.5).floor() * x.sign()


DECIDED: dict[str, tuple[Program, list[Any], AbstractContextManager[Any]]] = {
    "argmax of inputs": (lambda x: x.argmax(1), [TIED], last("argmax")),
    "argmin of integers": (lambda x: x.argmin(0), [TIED.long()], last("argmin")),
    "argmax of bfloat16": (lambda x: x.argmax(1), [TIED.bfloat16()], last("argmax")),
    "argmin of an exact result": (lambda x: (x * 2 + 1).relu().argmin(1), [TIED], last("argmin")),
    "comparison of inputs": (lambda x, y: torch.gt(x, y), [TIED, TIED.flip(1)], also_equal("gt")),
    "comparison of an exact result": (lambda x: torch.lt(x * 2 - 1, 1.0), [TIED], also_equal("lt")),
    "comparison of an exact sum beside what rounds": (
        lambda x: (x.exp(), torch.lt(x.sum(1) * 2 - 1, SUMMED * 2 - 1)), [TIED], also_equal("lt"),
    ),
    "half of an exact sum": (
        lambda x: (x.exp(), torch.round(x.sum(1) / 4)), [torch.arange(5.0).repeat(3, 1)], instead("round", half_away),
    ),
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_decision_that_no_rounding_reaches_is_judged(name: str) -> None:
    program, inputs, damage = DECIDED[name]
    got = judge(program, inputs, damage)
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,)), got.reason


def chosen(x: torch.Tensor) -> tuple[Any, ...]:
    return x.argmax(1), x.argmin(0), x.max(1), x.min(0), x.cummax(1), x.cummin(0), x.argmax(), x.bool().max(1)


def in_order(x: torch.Tensor) -> tuple[Any, ...]:
    return x.sort(1, stable=True), x.argsort(0, stable=True), torch.sort(x, 0, descending=True, stable=True)


def in_any_order(x: torch.Tensor) -> tuple[Any, ...]:
    return x.sort(1), x.topk(3, 1), x.median(1), x.mode(1), x.kthvalue(2, 1), x.nanmedian(0), x.argsort(1)


def turned(x: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Equal rows sorted so that every element comes from two places on."""
    return x.clone(), torch.arange(x.shape[dim]).roll(2).expand(x.shape).clone()


def marked(x: torch.Tensor) -> torch.Tensor:
    """Where the median of each column is taken from."""
    return torch.zeros_like(x).scatter(0, x.median(0).indices[None], 1.0)


def median_at_the_last(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The median of each column, of equals the last."""
    assert dim == 0 and not keepdim
    values = x.sort(0).values[(len(x) - 1) // 2]
    return values, torch.where(x == values, torch.arange(len(x))[:, None], -1).amax(0)


def of_the_other_sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.isnan(), x.view(torch.int32) >= 0, x.view(torch.int32) < 0)


NEAR_ZERO = [0.0, -2e-39, 1.2e-38, 1.2e-38, -3e-39, -5e-39]
BESIDE_LARGE = torch.tensor([[*NEAR_ZERO, -65536.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0]]).mT

UNDAMAGED: dict[str, tuple[Program, list[Any], AbstractContextManager[Any]]] = {
    "first of equals": (chosen, [TIED], nullcontext()),
    "first of equals after rounding": (lambda x: chosen((x * 0.3).exp()), [TIED], nullcontext()),
    "first of equal integers": (chosen, [TIED.int()], nullcontext()),
    "stable orders": (in_order, [TIED], nullcontext()),
    "orders that are free": (in_any_order, [TIED], nullcontext()),
    "pooling": (lambda x: F.max_pool2d(x[None], 3, return_indices=True), [TIED], nullcontext()),
    "another of equals after rounding": (lambda x: (x * 0.3).exp().argmax(1), [TIED], last("argmax")),
    **{
        f"any order of {n}": (lambda x: x.sort(1), [torch.ones(2, n)], instead("sort.default", turned))
        for n in (3, 5, 7)
    },
    **{
        f"the median of {n} equals": (marked, [torch.ones(n, 1)], instead("median.dim", median_at_the_last))
        for n in (3, 7, 12)
    },
    "the median of equals beside a large number": (
        marked, [BESIDE_LARGE], instead("median.dim", median_at_the_last),
    ),
    "the sign of NaN": (
        lambda x, y: (x * y).signbit(), [torch.tensor([0.0, 1.0, -1.0]), torch.tensor([math.inf, 2.0, 2.0])],
        instead("signbit", of_the_other_sign),
    ),
    "a comparison of a product of matrices": (
        lambda x: torch.lt((x @ x.mT) * 0.3, (x @ x.mT).mT * 0.3), [TIED], also_equal("lt"),
    ),
    "a comparison after rounding": (lambda x: torch.gt((x * 0.1).exp(), x.exp() ** 0.1), [TIED], also_equal("gt")),
}


@pytest.mark.parametrize("name", UNDAMAGED)
def test_what_rounding_decides_or_nobody_promises_is_not_judged(name: str) -> None:
    program, inputs, damage = UNDAMAGED[name]
    got = judge(program, inputs, damage)
    assert got.status in (Status.CLEAN, Status.TIE), (got.status, got.reason)


def test_half_of_a_sum_that_rounds_is_not_judged() -> None:
    got = judge(
        lambda x: torch.round((x * 0.1).sum(1) / 0.4), [torch.arange(5.0).repeat(3, 1)], instead("round", half_away)
    )
    assert got.status is Status.ILL_CONDITIONED, got.reason


ROWS = torch.rand(40, 16, generator=torch.Generator().manual_seed(0))


def count_of_larger(rows: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    return (rows.mean(-1) > limits).sum() == torch.arange(41)


def seven(rows: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    return torch.arange(41) == 7


def test_a_decision_on_what_ties_lead_to_may_fall_as_none_of_a_few_shadows_has_it(status_of: Any) -> None:
    """k-means: of forty points that lie between two centres any number may go to either, and centres follow."""
    limits = ROWS.double().mean(-1).float()
    assert status_of(count_of_larger, seven, [ROWS, limits]) == (Status.TIE, set())


def test_a_decision_on_what_no_tie_leads_to_is_still_seen(status_of: Any) -> None:
    limits = ROWS.double().mean(-1).float() + torch.linspace(-0.2, 0.2, 40)
    assert status_of(count_of_larger, seven, [ROWS, limits]) == (Status.FINDING, {"value"})
