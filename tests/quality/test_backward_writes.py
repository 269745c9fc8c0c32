"""What a backward pass writes beside gradients, into inputs, buffers and results, is judged as what the call writes.

The compiler is damaged in its table of decompositions, so that nothing needs a C++ compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from decompositions_exchanged import instead, judge

from fxmorph.model import Kind, Status, ValuePlan

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
PLANS = (ValuePlan.SEED, ValuePlan.AGAIN)


class Counts(torch.autograd.Function):
    """``sin``, whose backward pass adds what it was given to ``total``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.total = total
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        ctx.total.add_(grad.sum(0))
        return grad * x.cos(), None


class Scales(torch.autograd.Function):
    """``exp``, whose backward pass scales ``rate``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        out = x.exp()
        ctx.save_for_backward(out)
        ctx.rate = rate
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (out,) = ctx.saved_tensors
        ctx.rate.div_(1.25)
        return grad * out, None


def draw() -> torch.Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()


def lost(a: torch.Tensor, b: Any) -> torch.Tensor:
    return a.clone()


COUNTED = (lambda x, total: Counts.apply(x * 1.5, total), [draw(), torch.zeros(6)])
SCALED = (lambda x, rate: Scales.apply(x * 0.5, rate), [draw(), torch.ones(3)])
WRONG: dict[str, tuple[tuple[Program, list[Any]], AbstractContextManager[Any]]] = {
    "another value": (COUNTED, instead("add.Tensor", lambda a, b: a - b)),
    "a write that is lost": (COUNTED, instead("add.Tensor", lost)),
    "another scale": (SCALED, instead("div.Tensor", lambda a, b: a * 1.01)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_write_of_the_backward_pass_is_a_finding(name: str) -> None:
    (program, inputs), damage = WRONG[name]
    got = judge(program, inputs, damage, plans=PLANS)
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.MUTATION,)), got.reason
    assert got.reason.startswith("backward:input1: ")


@pytest.mark.parametrize("given", [COUNTED, SCALED], ids=["counted", "scaled"])
def test_right_writes_are_clean(given: tuple[Program, list[Any]]) -> None:
    assert judge(*given, nullcontext(), plans=PLANS).status is Status.CLEAN


def test_a_write_of_the_call_itself_is_told_once() -> None:
    def program(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x.detach().sum(0))
        return x.sin()

    got = judge(program, [draw(), torch.zeros(6)], instead("add.Tensor", lambda a, b: a - b), plans=PLANS)
    assert got.status is Status.FINDING and got.reason.startswith("after:input1: ") and "backward:" not in got.reason
