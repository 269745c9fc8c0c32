"""Graphs that are made from a unit's code show what is wrong with it: conditions of ``remove_noop_ops`` that hold too
often.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch._inductor.fx_passes.post_grad import noop_registry

from fxmorph.inductor import inventory
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.rung import Source, judge_source
from fxmorph.model import Kind, Status
from fxmorph.rules import Registry
from fxmorph.torchapi.optional_passes import NoopRule


def judged(unit: str, folder: Path) -> tuple[Pair, ...]:
    found = judge_source(Source(made=unit), [inventory.listed(unit).unit], None, Registry(), 0, folder)
    assert found.pairs
    return found.pairs


def sum_of_sides(x: Any, padding: Any, fill: Any = 0) -> bool:
    return sum(padding) == 0


def even_power(x: Any, exponent: Any) -> bool:
    return isinstance(exponent, int) and exponent in (1, 2)


def any_power(x: Any, exponent: Any) -> bool:
    return isinstance(exponent, (int, float))


WRONG = [
    ("constant_pad_nd", sum_of_sides), ("pow_noop", even_power), ("pow_noop", any_power),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "condition"),
    [
        pytest.param(r, c, id=f"{r}-{c.__name__}", marks=pytest.mark.slow if c is any_power else ())
        for r, c in WRONG
    ],
)
def test_a_condition_that_holds_too_often_is_found(
    rule: str, condition: Callable[..., bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"post_grad.remove_noop_ops/{rule}"
    item = inventory.listed(name)
    assert isinstance(item.handle, NoopRule)
    for operator in item.handle.operators:
        _, source = noop_registry[operator]
        monkeypatch.setitem(noop_registry, operator, (condition, source))
    findings = [pair for pair in judged(name, tmp_path) if pair.status is Status.FINDING]
    assert findings
    assert {kind for pair in findings for kind in pair.kinds} & {Kind.VALUE, Kind.NONFINITE}
    assert any(pair.program for pair in findings)  # what is compiled as a whole next


RIGHT = (
    *(f"post_grad.remove_noop_ops/{rule}" for rule in ("constant_pad_nd", "slice_noop", "repeat_noop", "pow_noop")),
    "joint.constant_fold_uniform_value", "partitioner.fx_graph_cse", "post_grad.view_to_reshape",
    "post_grad.reinplace_inplaceable_ops", "pre_grad.numpy_compat_normalization",
)  # fmt: skip


#: Conditions like those of others.
SLOW = ("post_grad.remove_noop_ops/constant_pad_nd", "post_grad.remove_noop_ops/repeat_noop")


@pytest.mark.parametrize("unit", [pytest.param(u, marks=pytest.mark.slow) if u in SLOW else u for u in RIGHT])
def test_a_right_unit_fires_and_is_not_accused(unit: str, tmp_path: Path) -> None:
    pairs = judged(unit, tmp_path)
    assert len(pairs) >= 10
    assert not [pair for pair in pairs if pair.status is Status.FINDING]
