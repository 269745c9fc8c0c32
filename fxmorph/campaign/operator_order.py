"""In which order operators of torch's own tests are tried: each once before any of them again.

First the calls that are most unlike each other, in several dtypes; then gradients, integers, fused calls, narrow floats
and the rest; then further calls of the same operators.  Within a round those operators come first that reach a lowering
which none before them reached: what is taken apart is looked at as a decomposition alone, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from fxmorph.core.operator_seeds import MIXED, ListedOperator, OperatorProgram, Setting

#: Rounds: a dtype (None: the first that the operator has), and what stands around the calls.
_ROUNDS: tuple[tuple[str | None, Setting], ...] = (
    (MIXED, Setting.ALONE),
    (None, Setting.BACKWARD),
    ("int64", Setting.ALONE),
    (None, Setting.FUSED),
    ("bfloat16", Setting.FUSED),
    (None, Setting.IN_PLACE),
    ("bool", Setting.ALONE),
    ("float16", Setting.BACKWARD),
    ("uint8", Setting.FUSED),
    ("float64", Setting.BACKWARD),
    ("int32", Setting.IN_PLACE),
    ("complex64", Setting.ALONE),
)


def ordered_programs(listed: Sequence[ListedOperator], campaign_seed: int) -> Iterator[OperatorProgram]:
    """All programs of the operators; within a round in an order drawn from the seed, in two groups."""
    reaching = reaching_operators(listed)
    for part in range(max((operator.parts for operator in listed), default=0)):
        for number, (dtype, setting) in enumerate(_ROUNDS):
            rng = random.Random(f"operators {campaign_seed} {part} {number}")
            for first in (True, False):
                group = [operator for operator in listed if (operator.name in reaching) is first]
                drawn = [p for operator in group if (p := _program(operator, dtype, setting, part)) is not None]
                rng.shuffle(drawn)
                yield from drawn


def reaching_operators(listed: Sequence[ListedOperator]) -> frozenset[str]:
    """Names of operators that together reach all lowerings that one reaches.

    Of each the one that reaches least else, and is named like it where there is one.
    """
    reached: set[str] = set()
    chosen = set()
    for operator in sorted(listed, key=lambda o: (len(o.lowerings), not _is_namesake(o), o.name)):
        if not operator.lowerings <= reached:
            reached |= operator.lowerings
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
    if setting is Setting.BACKWARD and not gradients:
        return None
    if setting is Setting.IN_PLACE and not operator.in_place:
        return None
    return OperatorProgram(operator.name, chosen, setting, part) if part < operator.parts else None
