"""The row of a finding: what people look for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fxmorph.core.finding_parts import Reduced
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.report.finding_row import _WRONG, HEADS, finding_row

FOUND = Finding("ab", "ab", "s.py", "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", "ab", "", "")


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("joint.pass_patterns[0]/_sfdp_pattern_1#4", "joint: _sfdp_pattern_1#4"),
        ("decomposition.aten.cat.default", "decomposition.aten.cat"),
        ("lowering.aten.ldexp.Tensor", "lowering.aten.ldexp.Tensor"),
        ("", "inductor"),
    ],
    ids=["entry", "default overload", "another overload", "no unit"],
)
def test_a_unit_is_told_in_short(unit: str, told: str) -> None:
    assert finding_row(replace(FOUND, unit=unit))[2] == told


def test_operators_that_say_much_are_named_each_once() -> None:
    def named(*operations: str) -> str:
        return finding_row(replace(FOUND, reduced=Reduced(operations=operations)))[3]

    assert named("add", "view", "amax", "amax", "cumsum", "gather", "sort") == "amax, cumsum, gather"
    assert named("add", "view") == "add, view"
    assert named() == ""


def test_a_seed_is_told_with_how_often_it_was_rewritten() -> None:
    row = finding_row(replace(FOUND, recipe="layout_flip@mul ; identity_or_zero@index"))
    assert row[-1] == "s.py + 2 rewrites" and len(row) == len(HEADS)
    assert finding_row(FOUND)[-1] == "s.py"


def test_each_kind_has_words() -> None:
    assert set(_WRONG) == set(Kind)
