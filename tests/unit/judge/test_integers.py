"""Which programs are given integers of fxmorph's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fxmorph.judge.steps import Steps
from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.load import Invocation
from fxmorph.programs.values import Limits, apply_plan

pytestmark = pytest.mark.usefixtures("torch_quiet")

LABELS = [torch.tensor([[1, 2, 3], [3, 2, 1]])]
SCORES = torch.randn(9, 2, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
LENGTHS = torch.tensor([9, 9]), torch.tensor([3, 3])


def labelled(labels: torch.Tensor) -> torch.Tensor:
    return F.ctc_loss(SCORES, labels, *LENGTHS)


def bags(at: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(at, torch.ones(4, 3))


def step(plan: ValuePlan, fn: Callable[..., Any], inputs: list[torch.Tensor]) -> Any:
    def make(step: Any) -> Invocation:
        args = [t.clone() for t in inputs]
        apply_plan(plan, args, 0, step)
        return Invocation(fn, args, lambda g: g(*args))

    return Steps().of(plan, make, no_grad=True)


@pytest.mark.parametrize("unchecked", [labelled, bags, lambda at: labelled(at + 0)])
def test_operators_that_do_not_look_get_no_negative_integers(unchecked: Callable[..., Any]) -> None:
    with pytest.raises(NotApplicable):
        step(ValuePlan.NEGATIVE, unchecked, LABELS)


@pytest.mark.parametrize("checked", [lambda at: torch.arange(9)[at], lambda x: x * 2, lambda x: x.sum(1)])
def test_others_get_them(checked: Callable[..., Any]) -> None:
    assert step(ValuePlan.NEGATIVE, checked, LABELS) == 0


def test_integers_at_their_limits_are_numbers_alone() -> None:
    many = [torch.arange(64) % 9]
    assert step(ValuePlan.LIMITS, lambda x: x * 2, many) is Limits.ALL
    assert step(ValuePlan.LIMITS, lambda at: torch.arange(9)[at], many) is Limits.FLOATS
