"""Values that compiled code computes twice, once for a sum and again beside it, or again for the backward pass.

The two may round otherwise (a vector's cosine is not the library's), and what they cancel to is rounding's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import Status

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
Function = Callable[[torch.Tensor], torch.Tensor]

#: Functions whose differences from 1 are of rounding's own size, and arguments of theirs.
ARGUMENTS: dict[Function, torch.Tensor] = {
    torch.cos: 10.0 ** torch.linspace(-5.5, -2.5, 64).reshape(8, 8),
    torch.exp: 10.0 ** torch.linspace(-8, -5, 64).reshape(8, 8),
    torch.sigmoid: torch.linspace(9, 17, 64).reshape(8, 8),
    torch.erf: torch.linspace(3.2, 4.2, 64).reshape(8, 8),
}

SLOPES: dict[Function, Function] = {
    torch.cos: lambda x: -torch.sin(x),
    torch.exp: torch.exp,
    torch.sigmoid: lambda x: torch.sigmoid(x) * torch.sigmoid(-x),
    torch.erf: lambda x: 2 / math.pi**0.5 * torch.exp(-x.square()),
}


def anew(function: Function) -> Function:
    """The same function, of other code: rounded once, from float64, and one step up for every other number."""

    def of(x: torch.Tensor) -> torch.Tensor:
        y = function(x.double()).float()
        up = torch.nextafter(y, torch.full_like(y, 2.0))
        return torch.where(torch.arange(x.numel()).reshape(x.shape) % 2 == 0, up, y)

    return of


def accused(verdicts: list[Any]) -> list[Any]:
    return [v for v in verdicts if v.status is Status.FINDING]


def share(function: Function, again: Function) -> Program:
    """Each element over the sum of its row, and the sum has its own."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return (1 - again(x)) / (1 - function(x)).sum(1, keepdim=True)

    return program


def from_the_row(function: Function, again: Function) -> Program:
    """What is left of each element beside the largest of its row."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return (1 - again(x)) * 1e6 - ((1 - function(x)) * 1e6).amax(1, keepdim=True)

    return program


def with_gradient(function: Function, again: Function) -> Program:
    """Normalised rows and their gradient, in which each element is computed again."""

    class Normal(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            total = (1 - function(x)).sum(1, keepdim=True)
            ctx.save_for_backward(x, total)
            return (1 - function(x)) / total

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            x, total = ctx.saved_tensors
            gap = 1 - again(x)
            return -SLOPES[function](x) * (grad / total - (grad * gap).sum(1, keepdim=True) / total.square())

    return lambda x: Normal.apply(x)


def plain(function: Function, _: Function) -> Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = 1 - function(x)
        return y / y.sum(1, keepdim=True)

    return program


def plain_row(function: Function, _: Function) -> Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = (1 - function(x)) * 1e6
        return y - y.amax(1, keepdim=True)

    return program


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("program", "computed_anew", "gradient"),
    [(plain, share, False), (plain_row, from_the_row, False), (plain, with_gradient, True)],
    ids=["share", "row", "gradient"],
)
def test_what_is_computed_anew_may_round_otherwise(
    function: Function, program: Any, computed_anew: Any, gradient: bool, judged: Any
) -> None:
    x = ARGUMENTS[function].clone().requires_grad_(gradient)
    got = judged(program(function, function), computed_anew(function, anew(function)), [x])
    assert not accused(got), got


def products(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.linspace(-1, 1, 64).reshape(8, 8)


#: What is kept in memory is the same wherever it is read.
KEPT: dict[str, Function] = {
    "mm": products,
    "sum": lambda x: x[:, None].cos().sum(1),
    "in_place": lambda x: torch.zeros(8, 8).index_add_(0, torch.arange(8), x.cos()),
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_what_is_in_memory_is_the_same_at_each_use(kept: Function, judged: Any) -> None:
    def program(x: torch.Tensor, off: float = 0.0) -> torch.Tensor:
        y = kept(x)
        return y * (1 + off) - y.amax(1, keepdim=True)

    assert accused(judged(program, lambda x: program(x, 2e-7), [torch.linspace(1, 2, 64).reshape(8, 8)]))


def test_a_wrong_value_beside_one_that_is_computed_anew_is_still_seen(judged: Any) -> None:
    x = torch.linspace(0.5, 1.5, 64).reshape(8, 8)
    wrong = lambda x: share(torch.cos, torch.cos)(x) * (1 + 1e-5)  # noqa: E731
    assert accused(judged(plain(torch.cos, torch.cos), wrong, [x]))


def test_a_wrong_gradient_of_what_is_computed_anew_is_still_seen(judged: Any) -> None:
    x = torch.linspace(0.5, 1.5, 64).reshape(8, 8).requires_grad_()
    off = lambda x: torch.cos(x) + 1e-4  # noqa: E731
    assert accused(judged(plain(torch.cos, torch.cos), with_gradient(torch.cos, off), [x]))


def test_what_is_computed_once_is_not_moved_apart(judged: Any) -> None:
    """The largest of a row beside itself, in one kernel: no rounding is between them where none was before."""
    x = torch.linspace(0.5, 1.5, 64).reshape(8, 8)
    below = lambda x, off=0.0: x * (1 + off) - x.amax(1, keepdim=True)  # noqa: E731
    assert accused(judged(below, lambda x: below(x, 2e-7), [x]))
