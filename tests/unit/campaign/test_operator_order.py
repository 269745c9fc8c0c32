"""The order of operators of torch's own tests."""

from __future__ import annotations

from itertools import islice

from fxmorph.campaign.operator_order import ordered_programs, reaching_operators
from fxmorph.core.operator_seeds import MIXED, ListedOperator, Setting


def operator(name: str, *lowerings: str, parts: int = 2, differentiable: bool = True) -> ListedOperator:
    return ListedOperator(name, ("float32", "int64"), parts, differentiable, False, frozenset(lowerings))


LISTED = [
    operator("amax", "aten.amax.default"),
    operator("special_amax", "aten.amax.default"),
    operator("cumsum", "aten.cumsum.default", differentiable=False),
    operator("silu"),
]


def test_those_that_reach_every_lowering_come_first_with_changed_arguments() -> None:
    assert reaching_operators(LISTED) == {"amax", "cumsum"}
    first = list(islice(ordered_programs(LISTED, 11), 9))
    assert {(p.operator, p.setting, p.part) for p in first[:2]} == {
        ("amax", Setting.CHANGED, 0), ("cumsum", Setting.CHANGED, 0),
    }  # fmt: skip
    assert (first[2].operator, first[2].setting) == ("amax", Setting.BACKWARD)  # the other one has no gradients
    assert [p.setting for p in first[3:5]] == [Setting.CHANGED] * 2 and {p.part for p in first[3:5]} == {1}
    assert {p.dtype for p in first[5:7]} == {MIXED} and [p.part for p in first[7:]] == [2, 2]


def test_each_program_comes_once_and_all_operators_come() -> None:
    programs = list(ordered_programs(LISTED, 11))
    assert len(set(programs)) == len(programs)
    assert {p.operator for p in programs} == {o.name for o in LISTED}
    assert list(ordered_programs(LISTED, 11)) == programs != list(ordered_programs(LISTED, 12))
