"""The order of operators of torch's own tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from fxmorph.campaign.operator_order import PACK, ordered_programs, packed, reaching_operators
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


def test_those_that_reach_all_functions_come_first_in_each_round() -> None:
    listed = [
        replace(operator(f"op{i}", f"aten.op{i}.default"), code=frozenset({"inner" if i % 5 else f"lower{i}"}))
        for i in range(20)
    ]
    first = list(islice(ordered_programs(listed, 11), 40))  # two rounds
    leading = {"op0", "op5", "op10", "op15", "op1"}
    assert {p.operator for p in first[:5]} == {p.operator for p in first[20:25]} == leading


def test_each_program_comes_once_and_all_operators_come() -> None:
    programs = list(ordered_programs(LISTED, 11))
    assert len(set(programs)) == len(programs)
    assert {p.operator for p in programs} == {o.name for o in LISTED}
    assert list(ordered_programs(LISTED, 11)) == programs != list(ordered_programs(LISTED, 12))


def test_programs_of_changed_arguments_are_packed_and_nothing_is_lost() -> None:
    operators = [operator(f"op{i}", f"aten.op{i}.default") for i in range(2 * PACK + 1)]
    alone = list(ordered_programs(operators, 3))
    together = [program for _, program in packed(enumerate(alone))]
    assert Counter(n for p in together for n in p.operators) == Counter(p.operator for p in alone)
    assert [p for p in together if p.setting is not Setting.CHANGED] == [
        p for p in alone if p.setting is not Setting.CHANGED
    ]
    first = together[0]
    assert first.setting is Setting.CHANGED and len(first.operators) == PACK and first.part == 0
    places = [place for place, _ in packed(enumerate(alone))][: -len(operators)]
    assert places == sorted(places)
