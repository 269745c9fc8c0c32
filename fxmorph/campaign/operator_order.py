"""In which order operators of torch's own tests are tried: each once before any of them again.

First the calls that are most unlike each other, in the dtype that most programs have; then gradients, integers,
fused calls, narrow floats and the rest; then further calls of the same operators.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from fxmorph.core.operator_seeds import ListedOperator, OperatorProgram, Setting

#: Rounds: a dtype (None: the first that the operator has), and what stands around the calls.
_ROUNDS: tuple[tuple[str | None, Setting], ...] = (
    (None, Setting.ALONE),
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
    """All programs of the operators; within a round in an order drawn from the seed."""
    for part in range(max((operator.parts for operator in listed), default=0)):
        for number, (dtype, setting) in enumerate(_ROUNDS):
            drawn = [p for operator in listed if (p := _program(operator, dtype, setting, part)) is not None]
            random.Random(f"operators {campaign_seed} {part} {number}").shuffle(drawn)
            yield from drawn


def _program(operator: ListedOperator, dtype: str | None, setting: Setting, part: int) -> OperatorProgram | None:
    """None where the operator has none in this dtype and setting, or not so many."""
    chosen = dtype or operator.dtypes[0]
    if chosen not in operator.dtypes or (dtype is not None and dtype == operator.dtypes[0]):
        return None
    gradients = operator.differentiable and chosen.startswith(("float", "bfloat", "complex"))
    if setting is Setting.BACKWARD and not gradients:
        return None
    if setting is Setting.IN_PLACE and not operator.in_place:
        return None
    return OperatorProgram(operator.name, chosen, setting, part) if part < operator.parts else None
