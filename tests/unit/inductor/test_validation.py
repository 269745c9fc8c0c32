"""Translation validation: right rewrites are proved at their level, wrong ones never, and counterexamples replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pairgraphs import numbers, traced

from fxmorph.inductor.pairs import judge_pair
from fxmorph.inductor.validation import Outcome, validate
from fxmorph.model import Level, Status

pytestmark = pytest.mark.usefixtures("torch_quiet")
X, Y = numbers(4, 5), numbers(4, 5, seed=1)
K = torch.tensor([3, 0, 2, 2])


def validated(before: Callable[..., Any], after: Callable[..., Any], *inputs: Any, eager: bool = True) -> Any:
    """``eager``: with what eager says of the pair; without, proofs stand alone."""
    graphs = traced(before, *inputs), traced(after, *inputs)
    judged = judge_pair(*graphs, inputs, aliases=False) if eager else None
    return validate(*graphs, inputs, judged=judged)


def _write(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[1:3].add_(1)
    return y


PROVED = {
    "moves": (lambda x, y: x.t().flip(0).t(), lambda x, y: x.flip(1), Level.INDEX_EXACT),
    "copies": (lambda x, y: x.clone() + y.contiguous(), lambda x, y: x + y, Level.BIT_EXACT),
    "times one": (lambda x, y: (x * 1.0).softmax(1), lambda x, y: x.softmax(1), Level.BIT_EXACT),
    "under an opaque operator": (lambda x, y: (x / 1.0).cumsum(0), lambda x, y: x.cumsum(0), Level.BIT_EXACT),
    "plus zero": (lambda x, y: x + 0.0, lambda x, y: x, Level.BIT_EXACT_MOD_ZERO_SIGN),
    "times zero": (lambda x, y: x * 0 + y, lambda x, y: torch.zeros_like(x) + y, Level.UNDER_PRECONDITION),
    "relu twice": (lambda x, y: x.relu().relu(), lambda x, y: x.relu(), Level.BIT_EXACT),
    "reassociated": (lambda x, y: (x + y) + 0.1, lambda x, y: x + (y + 0.1), Level.EXACT_REAL),
    "mm transposed": (lambda x, y: x @ y.t(), lambda x, y: (y @ x.t()).t(), Level.EXACT_REAL),
    "in place": (_write, lambda x: torch.cat([x[:1] * 2, x[1:3] * 2 + 1, x[3:] * 2]), Level.BIT_EXACT),
    "input written": (lambda x, y: x.mul_(1.0) + y, lambda x, y: x + y, Level.BIT_EXACT),
    "casts": (lambda x, y: x.double().float() + y, lambda x, y: x + y, Level.BIT_EXACT),
}


@pytest.mark.parametrize("name", PROVED)
def test_right_rewrites_are_proved(name: str) -> None:
    before, after, level = PROVED[name]
    inputs = (X,) if name == "in place" else (X, Y)
    shown = validated(before, after, *inputs)
    assert (shown.outcome, shown.level) == (Outcome.PROVED, level), shown
    assert shown.seconds < 5


def _slice(x: torch.Tensor, y: torch.Tensor, at: int) -> torch.Tensor:
    return x[:, at : at + 3] + 1


#: The eight mutations of the study of passes (guide, proof.md 6): six are wrong, two are legal over the reals.
WRONG = {
    "alpha dropped": (lambda x, y: torch.add(x, y, alpha=2).relu(), lambda x, y: torch.add(x, y).relu()),
    "cat reversed": (lambda x, y: torch.cat([x, y], 1).relu(), lambda x, y: torch.cat([y, x], 1).relu()),
    "slice off by one": (lambda x, y: _slice(x, y, 1), lambda x, y: _slice(x, y, 0)),
    "relu of a sum": (lambda x, y: (x + y).relu(), lambda x, y: x.relu() + y.relu()),
    "mean of n - 1": (lambda x, y: x.sum(1) / 5.0, lambda x, y: x.sum(1) / 4.0),
    "mm swapped": (lambda x, y: x[:, :4] @ y[:, :4], lambda x, y: y[:, :4] @ x[:, :4]),
    "write lost": (lambda x, y: x.add_(1) * y, lambda x, y: (x + 1) * y),
    "written too early": (lambda x, y: (y + x, x.add_(1))[0], lambda x, y: y + x.add_(1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rewrites_are_refuted(name: str) -> None:
    shown = validated(*WRONG[name], X, Y)
    assert shown.outcome is Outcome.REFUTED and shown.counterexample, shown


@pytest.mark.parametrize("name", WRONG)
def test_nothing_wrong_is_proved_without_eager(name: str) -> None:
    assert validated(*WRONG[name], X, Y, eager=False).outcome is not Outcome.PROVED


def test_a_dropped_rounding_is_no_equality_of_bits() -> None:
    def before(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.1).bfloat16().float() + 1

    shown = validated(before, lambda x: x * 1.1 + 1, X)
    assert shown.outcome is Outcome.PROVED and shown.level is Level.EXACT_REAL
    assert validated(before, lambda x: x * 1.1 + 1, X, eager=False).level in (Level.EXACT_REAL, Level.UNKNOWN)


def test_a_counterexample_that_no_plan_tries_is_found_and_replayed() -> None:
    """Both agree on every value but 77."""
    values = torch.arange(20.0).reshape(4, 5)

    def after(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x == 77.0, x + 1, x)

    graphs = traced(lambda x: x + 0, values), traced(after, values)
    judged = judge_pair(*graphs, [values], aliases=False)
    assert judged.status is not Status.FINDING
    shown = validate(*graphs, [values], judged=judged)
    assert shown.outcome is Outcome.REFUTED and "77" in shown.counterexample


def test_indices_enter_by_their_values_where_that_is_needed() -> None:
    shown = validated(lambda x, k: x[k], lambda x, k: torch.stack([x[3], x[0], x[2], x[2]]), X, K)
    assert shown.level is Level.INDEX_EXACT and shown.assumptions == ("these-integers",)
    assert validated(lambda x, k: x[k] + 0, lambda x, k: x[k + 0] + 0, X, K).outcome is Outcome.PROVED


def test_what_is_not_modelled_says_so() -> None:
    shown = validated(lambda x: torch.rand_like(x) + x, lambda x: x + torch.rand_like(x) * 1.0, X)
    assert shown.outcome is Outcome.UNSUPPORTED and "rand_like" in shown.reason
    assert shown.level is Level.UNKNOWN


def test_a_difference_that_eager_saw_is_never_proved() -> None:
    graphs = traced(lambda x: x + 1, X), traced(lambda x: x + 2, X)
    judged = judge_pair(*graphs, [X], aliases=False)
    same = traced(lambda x: x + 1, X)
    assert validate(graphs[0], same, [X], judged=judged).outcome is Outcome.REFUTED


def test_results_of_another_dtype_are_refuted() -> None:
    shown = validated(lambda x: x.double(), lambda x: x + 0, X, eager=False)
    assert shown.outcome is Outcome.REFUTED and "float64" in shown.counterexample
