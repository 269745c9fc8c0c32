"""Programs with several casts to a narrower type, of which compiled code keeps some: no accusation, nothing hidden."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from fxmorph.model import Status

pytestmark = pytest.mark.usefixtures("torch_quiet")
Cast = Callable[[torch.Tensor], torch.Tensor]


def halved(x: torch.Tensor) -> torch.Tensor:
    return x.half().float()


def to_bfloat16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).float()


def colours(a: Cast, b: Cast, c: Cast) -> Callable[[torch.Tensor], torch.Tensor]:
    """A sum of three that are stored in half precision, whose errors may cancel."""
    return lambda x: a(x * 0.3) - b(x.sin() * 0.59) + c(x.cos() * 0.11)


def chained(a: Cast, b: Cast, c: Cast) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: c(b(a(x * 1.1) * 0.7).exp() * 0.3)


def summed(a: Cast, b: Cast, c: Cast) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: (a(x * 1.7).view(-1, 8) * b(x.tanh()).view(-1, 8)).sum(1) - c(x * 0.9).view(-1, 8).amax(1)


SOME = [kept for kept in itertools.product((True, False), repeat=3) if any(kept) and not all(kept)]


@pytest.mark.parametrize("cast", [halved, to_bfloat16])
@pytest.mark.parametrize("program", [colours, chained, summed])
def test_any_of_them_may_be_elided(program: Any, cast: Cast, status_of: Callable[..., Any]) -> None:
    x = torch.linspace(-2, 2, 2048)
    for kept in SOME:
        compiled = program(*(cast if keeps else (lambda t: t) for keeps in kept))
        got, kinds = status_of(program(cast, cast, cast), compiled, [x])
        assert got in (Status.EXPECTED, Status.CLEAN) and not kinds, kept


@pytest.mark.parametrize("sum_", [torch.mean, torch.amax])
def test_one_number_of_several_casts(sum_: Any, status_of: Callable[..., Any]) -> None:
    """A result without dimensions."""

    def program(a: Cast, b: Cast) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: sum_(a(x * 0.3) - b(x.sin() * 0.59))

    x = torch.linspace(0.5, 2, 2048)
    for compiled in (program(halved, lambda t: t), program(lambda t: t, halved)):
        assert status_of(program(halved, halved), compiled, [x])[0] in (Status.EXPECTED, Status.CLEAN)
    assert status_of(program(halved, halved), lambda x: program(halved, halved)(x) + 0.1, [x])[0] is Status.FINDING


def wrong(program: Any, casts: Sequence[Cast]) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    right = program(*casts)
    shifted = lambda x: torch.cat([right(x)[1:], right(x)[:1]])  # noqa: E731
    return [lambda x: right(x) * 1.01, shifted, lambda x: right(x) + 0.02, lambda x: right(x.abs())]


@pytest.mark.parametrize("program", [colours, chained, summed])
def test_what_no_cast_explains_is_a_finding(program: Any, status_of: Callable[..., Any]) -> None:
    x = torch.linspace(-2, 2, 2048)
    for compiled in wrong(program, (halved, lambda t: t, halved)):
        got, kinds = status_of(program(halved, halved, halved), compiled, [x])
        assert got is Status.FINDING and "value" in kinds
