"""In which order operators of torch's own tests are tried.

First, of those that together reach every lowering, calls with arguments changed on purpose, gradients, fused calls and
several dtypes: what is taken apart is looked at as a decomposition alone, too.  Within each of these rounds come first
those that together reach all functions that lower anything: most pointwise operators share one.  Then all, each once
before any of them again: the calls that are most unlike each other, gradients, integers, fused calls, gradients of
fused ones in narrow floats and the rest; then further calls of the same operators.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from fxmorph.core.operator_seeds import MIXED, ListedOperator, OperatorProgram, Setting
from fxmorph.core.seen_differences import differs_as_it_is

#: Programs of changed arguments that are compiled as one.
PACK = 4
#: Rounds: a dtype (None: the first that the operator has), and what stands around the calls.
_ROUNDS: tuple[tuple[str | None, Setting], ...] = (
    (MIXED, Setting.ALONE),
    (None, Setting.BACKWARD),
    ("int64", Setting.ALONE),
    (None, Setting.FUSED),
    (None, Setting.CHANGED),
    ("bfloat16", Setting.TRAINED),
    (None, Setting.IN_PLACE),
    ("bool", Setting.ALONE),
    (None, Setting.TRAINED),
    ("bfloat16", Setting.FUSED),
    ("uint8", Setting.FUSED),
    ("float16", Setting.BACKWARD),
    ("float64", Setting.BACKWARD),
    ("int32", Setting.IN_PLACE),
    ("complex64", Setting.ALONE),
)


#: Rounds of the operators that together reach every lowering, before all others: with the part.
_FIRST: tuple[tuple[str | None, Setting, int], ...] = (
    (MIXED, Setting.CHANGED, 0),
    (None, Setting.BACKWARD, 0),
    (MIXED, Setting.CHANGED, 1),
    (MIXED, Setting.ALONE, 0),
    (MIXED, Setting.CHANGED, 2),
)


def ordered_programs(listed: Sequence[ListedOperator], campaign_seed: int) -> Iterator[OperatorProgram]:
    """All programs of the operators; within a round in an order drawn from the seed."""
    given: set[OperatorProgram] = set()
    for program in _every_round(listed, campaign_seed):
        if program not in given:
            given.add(program)
            yield program


def packed(placed: Iterable[tuple[int, OperatorProgram]]) -> Iterator[tuple[int, OperatorProgram]]:
    """The same order with :data:`PACK` programs of changed arguments, of one dtype and part each, as one, which has
    the place of the last.

    A C++ compiler takes a second for a program whatever there is in it.
    """
    waiting: dict[tuple[str, int], list[OperatorProgram]] = {}
    place = 0
    for place, program in placed:
        if program.setting is not Setting.CHANGED:
            yield place, program
            continue
        group = waiting.setdefault((program.dtype, program.part), [])
        group.append(program)
        if len(group) == PACK:
            yield place, _pack(group)
            group.clear()
    yield from ((place, _pack(group)) for group in waiting.values() if group)


def _pack(programs: Sequence[OperatorProgram]) -> OperatorProgram:
    return replace(programs[0], operator="+".join(program.operator for program in programs))


def _every_round(listed: Sequence[ListedOperator], campaign_seed: int) -> Iterator[OperatorProgram]:
    reaching = reaching_operators(listed)
    first = [operator for operator in listed if operator.name in reaching]
    leading = _covering(first, lambda operator: operator.code)
    for number, (dtype, setting, part) in enumerate(_FIRST):
        drawn = [p for operator in first if (p := _program(operator, dtype, setting, part)) is not None]
        random.Random(f"first operators {campaign_seed} {number}").shuffle(drawn)
        yield from _new_first(sorted(drawn, key=lambda program: program.operator not in leading))
    for part in range(max((operator.parts for operator in listed), default=0)):
        for number, (dtype, setting) in enumerate(_ROUNDS):
            rng = random.Random(f"operators {campaign_seed} {part} {number}")
            drawn = [p for operator in listed if (p := _program(operator, dtype, setting, part)) is not None]
            rng.shuffle(drawn)
            yield from _new_first(drawn)


def _new_first(programs: Sequence[OperatorProgram]) -> list[OperatorProgram]:
    """What the installed torch is known to differ on comes last."""
    return sorted(programs, key=lambda program: differs_as_it_is(program.seed()))


def reaching_operators(listed: Sequence[ListedOperator]) -> frozenset[str]:
    """Names of operators that together reach all lowerings that one reaches.

    Of each the one that reaches least else, and is named like it where there is one.
    """
    return _covering(listed, lambda operator: operator.lowerings)


def _covering(listed: Sequence[ListedOperator], of: Callable[[ListedOperator], frozenset[str]]) -> frozenset[str]:
    reached: set[str] = set()
    chosen = set()
    for operator in sorted(listed, key=lambda o: (len(of(o)), not _is_namesake(o), o.name)):
        if not of(operator) <= reached:
            reached |= of(operator)
            chosen.add(operator.name)
    return frozenset(chosen)


def _is_namesake(operator: ListedOperator) -> bool:
    return operator.name in {overload.split(".")[1] for overload in operator.lowerings}


def _program(operator: ListedOperator, dtype: str | None, setting: Setting, part: int) -> OperatorProgram | None:
    """None where the operator has none in this dtype and setting, or not so many."""
    chosen = operator.dtypes[0] if dtype is None or (dtype == MIXED and len(operator.dtypes) == 1) else dtype
    if chosen not in (*operator.dtypes, MIXED) or dtype == operator.dtypes[0]:
        return None
    gradients = operator.differentiable and chosen.startswith(("float", "bfloat", "complex"))
    if setting.differentiated and not gradients:
        return None
    if setting is Setting.IN_PLACE and not operator.in_place:
        return None
    if setting is Setting.CHANGED:
        return OperatorProgram(operator.name, chosen, setting, part)
    return OperatorProgram(operator.name, chosen, setting, part) if part < operator.parts else None
