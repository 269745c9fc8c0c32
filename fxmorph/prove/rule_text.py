"""What the text of a rule's sides says about where it may go wrong: its numbers, and what it asks of its arguments."""

from __future__ import annotations

import dis
import itertools
import math
import re
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from fxmorph.rules import Rule

#: Numbers above these are not tried as sizes, and not as values.
LARGEST_SIZE, LARGEST_VALUE = 10_000, 1e6
#: Powers above these are not tried as sizes.
_LARGEST_POWER = 2050
#: Sizes below are met by other draws, in sums too.
_LARGE = 300
#: Of so many numbers what they make of each other is tried too.
_FEW = 8
#: Numbers that every draw has.
_ORDINARY = frozenset((0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0))
_NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?")
#: Attributes that tell how a tensor lies in memory.
_OF_LAYOUT = frozenset(
    "stride storage_offset is_contiguous data_ptr untyped_storage storage dim_order _is_view _base as_strided".split()
)
#: Names of functions that look at the text or at the identity of what they are given.
_OF_TEXT = frozenset("str repr hash id type isinstance format bit_length __class__".split())

#: What makes whole numbers of others; with a size, a rounding or a digit decides.
_WHOLE = frozenset("arange int round floor ceil trunc divmod isqrt bit_length str repr format len".split())
#: So many of something a narrow dtype cannot count.
_COUNTED = {"uint8": 256, "int8": 128, "int16": 32768, "bfloat16": 256, "float16": 2048, "half": 2048}
#: Operators whose positions are ratios of sizes.
_RATIOS = frozenset("interpolate upsample upsample_nearest upsample_bilinear Upsample affine_grid grid_sample".split())
_SIZES = frozenset("shape size numel ndim dim nelement".split())


def codes(rule: Rule) -> Iterator[CodeType]:
    """The code of both sides, of what is defined in them, and of the functions of their module that they call."""
    todo: list[Any] = [rule.before, rule.after]
    seen: set[Any] = set()
    while todo:
        next_ = todo.pop()
        if next_ in seen:
            continue
        seen.add(next_)
        if isinstance(next_, CodeType):
            yield next_
            todo += [c for c in next_.co_consts if isinstance(c, CodeType)]
        elif isinstance(next_, FunctionType):
            todo.append(next_.__code__)
            used = (next_.__globals__.get(name) for name in next_.__code__.co_names)
            todo += [f for f in used if isinstance(f, FunctionType) and f.__module__ == next_.__module__]


def told_numbers(rule: Rule) -> tuple[float, ...]:
    """Numbers that the sides are written with, in order; digits in texts count."""
    found: set[float] = set()

    def add(value: Any) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if math.isfinite(value) and abs(value) <= LARGEST_VALUE:
                found.add(float(value))
        elif isinstance(value, str):
            found.update(float(digits) for digits in re.findall(r"\d{1,6}", value))
        elif isinstance(value, tuple | frozenset):
            for part in value:
                add(part)

    for side in (rule.before, rule.after):  # read from data: there is no code
        add(tuple(map(float, _NUMBER.findall(getattr(side, "text", "")))))
    for code in codes(rule):
        for const in code.co_consts[1 if code.co_consts and isinstance(code.co_consts[0], str) else 0 :]:
            add(const)
    return tuple(sorted(found))


def asks_python_for_numbers(rule: Rule) -> bool:
    """Whether the numbers that a side uses may be others than those of its text: roots, logarithms, pi."""
    return any("math" in code.co_names for code in codes(rule))


def told_values(rule: Rule) -> tuple[float, ...]:
    """Values at which a side may change its ways: its numbers, and what they make of each other, of both signs.

    None where they are but those that every draw has.
    """
    told = [n for n in told_numbers(rule) if n not in _ORDINARY]
    if not told:
        return ()
    some = sorted({*told, *(n for n in told_numbers(rule) if n)}, key=lambda n: (n in _ORDINARY, n))[:_FEW]
    made = {f for a in some for b in some for f in (a - b, a + b, a * b, a / b if b else a)}
    both = {sign * v for v in {*told, *made} for sign in (1.0, -1.0)} | {math.sqrt(v) for v in told if v > 0}
    return tuple(sorted(v for v in both if abs(v) <= LARGEST_VALUE))


def told_sizes(rule: Rule) -> tuple[int, ...]:
    """Sizes at which a side may change its ways: its whole numbers and their neighbours, where draws may miss them."""
    whole = [int(n) for n in told_numbers(rule) if n == int(n) and 3 < n <= LARGEST_SIZE]
    sums = [sum(pair) for pair in itertools.combinations_with_replacement(whole[-_FEW:], 2) if max(pair) > _LARGE]
    every = [*whole, *(n for n in sums if n <= LARGEST_SIZE)]
    near = dict.fromkeys(size for n in every for size in (n, n + 1, n - 1))
    counts = dict.fromkeys(n for dtype in _narrow(rule) for n in (_COUNTED[dtype], _COUNTED[dtype] + 1))
    return (*near, *(n for n in counts if n not in near))


def counts_in_few_bits(rule: Rule) -> bool:
    """Whether a side names a dtype that many alike may be too many for."""
    return bool(_narrow(rule))


def _narrow(rule: Rule) -> list[str]:
    names = {name for code in codes(rule) for name in code.co_names}
    return [dtype for dtype in _COUNTED if dtype in names]


def decides(rule: Rule) -> bool:
    """Whether a side does one thing or another by what it is given, rather than the same for all arguments."""
    return any("JUMP" in s.opname and "IF" in s.opname for code in codes(rule) for s in dis.get_instructions(code))


def asks_for_layout(rule: Rule) -> bool:
    """Whether a side looks at how its arguments lie in memory."""
    return any(_OF_LAYOUT & set(code.co_names) for code in codes(rule))


def asks_for_sizes(rule: Rule) -> bool:
    """Whether a side looks at the size of a dimension: what holds may depend on how sizes are to each other."""
    return any(_SIZES & set(code.co_names) for code in codes(rule))


def asks_for_text(rule: Rule) -> bool:
    """Whether a side looks at the text, the type or the identity of something, of a size for instance."""
    return any(
        _OF_TEXT & set(code.co_names) or any(s.opname == "FORMAT_VALUE" for s in dis.get_instructions(code))
        for code in codes(rule)
    )


def computes_sizes(rule: Rule) -> bool:
    """Whether a side may make whole numbers of sizes by way of others: of logarithms, roots, fractions or digits."""
    every = list(codes(rule))
    names = {name for code in every for name in code.co_names}
    steps = {s.argrepr for code in every for s in dis.get_instructions(code)}
    digits = names & {"math", "str", "repr", "format"}
    fractions = digits or steps & {"**", "/"} or any(n % 1 for n in told_numbers(rule))
    return bool(_SIZES & names and _WHOLE & names and fractions)


def divides_sizes(rule: Rule) -> bool:
    """Whether an operator of a side makes positions of the ratio of two sizes, in floating point."""
    return any(_RATIOS & set(code.co_names) for code in codes(rule))


def computed_sizes() -> tuple[int, ...]:
    """Sizes where roundings of logarithms, roots, fractions and digits show: small ones, powers and those beside."""
    powers = {k**e for k in range(2, 46) for e in range(2, 12) if k**e <= _LARGEST_POWER}
    return tuple(sorted({*range(2, 210), *(size for power in powers for size in (power - 1, power, power + 1))}))


def writes(rule: Rule) -> bool:
    """Whether a side writes to memory: what it reads may be what it has written."""
    return any(
        any(name.endswith("_") and not name.startswith("_") for name in code.co_names)
        or any(s.opname == "STORE_SUBSCR" for s in dis.get_instructions(code))
        for code in codes(rule)
    )
