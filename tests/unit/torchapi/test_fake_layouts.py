"""Operators whose fake kernel says another layout than they give are seen while a program runs in eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import torch

from fxmorph.judge.trial import Trial
from fxmorph.model import CompileConfig, Kind, ValuePlan, Verdict
from fxmorph.torchapi.fake_layouts import layouts_compared
from fxmorph.triage.blame.localize import localize
from fxmorph.triage.blame.probe import Probe

UNIT = "aot.fake.fake_layouts.turned.default"


@pytest.fixture
def turned() -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """An operator that gives what is laid out column by column, and says that it is row by row."""
    library = torch.library.Library("fake_layouts", "DEF")
    library.define("turned(Tensor x) -> Tensor")
    library.impl("turned", lambda x: (x + 1).t().contiguous().t(), "CompositeExplicitAutograd")
    library.impl("turned", lambda x: torch.empty_like(x), "Meta")
    yield torch.ops.fake_layouts.turned.default
    library._destroy()


def test_the_first_operator_that_is_told_wrongly_is_found(turned: Callable[..., torch.Tensor]) -> None:
    x = torch.zeros(2, 3)
    with layouts_compared() as wrong:
        turned(torch.relu(x)).sum()
    assert wrong == ["fake_layouts.turned.default"]
    with layouts_compared() as wrong:
        turned(torch.zeros(1, 3))  # no stride counts of a dimension of one element
        torch.relu(x.t()).reshape(6).clone().add_(1)
    assert wrong == []


@pytest.mark.parametrize(("kind", "unit"), [(Kind.STRIDE, UNIT), (Kind.VALUE, "")])
def test_it_is_blamed_where_a_layout_differs_and_nothing_else_is_to_blame(
    turned: Callable[..., torch.Tensor], kind: Kind, unit: str
) -> None:
    class TurningTrial:
        sides, signature = None, None

        def __init__(self, config: CompileConfig) -> None: ...

        def judge(self, plan: ValuePlan) -> list[Verdict]:
            return []  # it is gone whatever is held back, so that nothing of that is guilty

        def eager(self, plan: ValuePlan) -> Any:
            return turned(torch.zeros(2, 3))

    made = cast(Callable[[CompileConfig], Trial], TurningTrial)
    probe = Probe(made, CompileConfig.make(), ValuePlan.SEED, frozenset({kind}), 60.0, in_eager=True)
    blame = localize(probe, "inductor")
    assert blame.unit == unit and not blame.confirmed
