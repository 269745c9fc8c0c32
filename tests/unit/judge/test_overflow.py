"""Integer arithmetic that may leave int32 or int64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fxmorph.judge.reference.reference_run import ReferenceRun

pytestmark = pytest.mark.usefixtures("torch_quiet")

MOST = torch.iinfo(torch.int32).max


def ints(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def overflow_in(fn: Callable[..., torch.Tensor], *values: torch.Tensor) -> str:
    run = ReferenceRun()
    with run:
        fn(*values)
    return run.gates.integer_overflow


@pytest.mark.parametrize(
    ("fn", "values", "operator"),
    [
        (lambda x: x + 1, (ints(MOST),), "add"),
        (lambda x: x.add_(1), (ints(MOST),), "add_"),
        (lambda x: x - 2, (ints(-MOST),), "sub"),
        (lambda x: torch.add(x, x, alpha=3), (ints(MOST // 3),), "add"),
        (lambda x: x * x, (ints(1 << 16),), "mul"),
        (lambda x: -x, (ints(-MOST - 1),), "neg"),
        (lambda x: x.sum(), (ints(2**62, 2**62, dtype=torch.int64),), "sum"),
        (lambda x: x.cumprod(0), (ints(*[10] * 20),), "cumprod"),
        (lambda x: x @ x, (ints(*[1 << 15] * 4).view(2, 2),), "mm"),
    ],
)
def test_what_may_leave_the_type_is_seen(
    fn: Callable[..., torch.Tensor], values: tuple[torch.Tensor, ...], operator: str
) -> None:
    assert overflow_in(fn, *values) == operator


@pytest.mark.parametrize(
    ("fn", "values"),
    [
        (lambda x: x + 1, (ints(MOST - 1),)),
        (lambda x: -x, (ints(-MOST),)),
        (lambda x: x.sum(), (ints(*[MOST] * 100),)),  # in int64
        (lambda x: x + x, (ints(127, dtype=torch.int8),)),  # wraps, as C++ says
        (lambda x: x + x, (ints(255, dtype=torch.uint8),)),
        (lambda x: x + torch.ones(1), (ints(MOST),)),
        (lambda x: (x > 0) + (x < 0), (ints(MOST),)),
        (lambda x: x * x, (ints(),)),
    ],
)
def test_what_fits_is_not(fn: Callable[..., torch.Tensor], values: tuple[torch.Tensor, ...]) -> None:
    assert overflow_in(fn, *values) == ""
