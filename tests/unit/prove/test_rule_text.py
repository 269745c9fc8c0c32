"""What is read off a rule's text, and that draws and values follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.prove import rule_text
from fxmorph.prove.argument_draws import arguments_of
from fxmorph.prove.certificates import instance_text
from fxmorph.prove.falsify import falsify
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import prove_rule
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.samples import too_large
from fxmorph.rules import Rule

LIMIT = 700


def a_rule(after: Callable[..., Any], **said: Any) -> Rule:
    defaults: dict[str, Any] = {"args": {"x": "m n"}, "before": lambda x: x * 1, "dtypes": ("float32",)}
    parts = {**defaults, "claim": Level.BIT_EXACT, "doc": "d", "source": "s", **said}
    return Rule(id=f"algebra_{after.__name__}", after=after, **parts)


def _helped(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x == 41.5, -x, x)


def through_a_helper(x: torch.Tensor) -> torch.Tensor:
    return _helped(x)


def straight(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row for row in x.clone()])


def from_a_size_on(x: torch.Tensor) -> torch.Tensor:
    return -x if x.shape[1] > 700 else x.clone()


def at_one_size(x: torch.Tensor) -> torch.Tensor:
    return -x if x.shape[0] == 13 else x.clone()


def by_text(x: torch.Tensor) -> torch.Tensor:
    return -x if f"{x.shape[0]}".endswith("7") else x.clone()


def by_stride(x: torch.Tensor) -> torch.Tensor:
    return -x if x.stride(1) == 0 and x.shape[1] > 1 else x.clone()


def at_a_tie(x: torch.Tensor) -> torch.Tensor:
    return torch.where(4 * x >= 2.5, torch.where(4 * x == 2.5, -x, x), x)


def test_numbers_of_helpers_and_texts_count() -> None:
    assert 41.5 in rule_text.told_numbers(a_rule(through_a_helper))
    assert 7.0 in rule_text.told_numbers(a_rule(by_text))
    assert rule_text.told_sizes(a_rule(from_a_size_on)) == (700, 701, 699, 1400, 1401, 1399)  # and their sums
    assert {2.5 / 4, -2.5, 10.0} <= set(rule_text.told_values(a_rule(at_a_tie)))
    assert rule_text.told_values(a_rule(straight)) == ()


@pytest.mark.parametrize(
    "body,decides,layout,text",
    [(straight, False, False, False), (at_one_size, True, False, False), (by_text, True, False, True),
     (by_stride, True, True, False)],
)  # fmt: skip
def test_what_a_side_asks(body: Callable[..., Any], decides: bool, layout: bool, text: bool) -> None:
    rule = a_rule(body)
    assert (rule_text.decides(rule), rule_text.asks_for_layout(rule), rule_text.asks_for_text(rule)) == (
        decides, layout, text,
    )  # fmt: skip


@pytest.mark.parametrize("body", [through_a_helper, from_a_size_on, at_one_size, by_text, by_stride, at_a_tie])
def test_a_rule_that_its_text_gives_away_is_refuted(body: Callable[..., Any]) -> None:
    assert prove_rule(a_rule(body), "float32", Prover()).level is Level.REFUTED


def test_a_rule_that_is_right_is_tried_no_more_than_before() -> None:
    assert len(list(arguments_of(a_rule(straight), "float32", 30))) == 30
    assert len({instance_text(i) for i in arguments_of(a_rule(straight), "float32", 30)}) == 30


def floats_beside_integers(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return i > x


def test_floats_meet_the_integers_beside_them() -> None:
    rule = a_rule(
        floats_beside_integers, args={"x": "n", "i": "n"}, mixed=True, where=("x.floating", "i.dtype == 'int64'"),
        before=lambda x, i: i.double() > x.double(),
    )  # fmt: skip
    found = falsify(Instance(rule, {"x": torch.rand(64), "i": torch.full((64,), 2**24 + 1)}, {}))
    assert found.counterexample is not None


def test_what_would_fill_the_memory_is_not_drawn() -> None:
    rule = a_rule(lambda x: torch.kron(x, x), before=lambda x: torch.kron(x, x))
    assert too_large(Instance(rule, {"x": torch.rand(90, 90)}, {}))
    assert not too_large(Instance(rule, {"x": torch.rand(9, 9)}, {}))
