"""Quotients and powers whose arguments are numbers of Python."""

from __future__ import annotations

from math import inf

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.operands import guarded, number, operand
from fxmorph.programs.generator.promotion import (
    FLOATS,
    NUMBERS,
    result_dtype,
)
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.spans import Span, corners, even, falling, rising
from fxmorph.programs.generator.spelling import spelled

ROWS = Rows()


@ROWS.add("div_rounding", 2)
def _div_rounding(draft: Draft) -> None:
    a = operand(draft, NUMBERS, exact=True)
    mode = draft.dice.one_of(("'floor'", "'trunc'"))
    text, other = number(draft, a.dtype, 1, 5)
    counted = "float32" if "." in text else "int64"
    dtype = result_dtype([(a.dtype, a.rank), (counted, None)])
    lo, hi = corners(lambda x, y: x / y, a.span, other)
    exact = a.span.whole and other.whole
    spelled(
        draft,
        draft.dice.one_of(("div", "divide")),
        "fmi",
        [a],
        f"{text}, rounding_mode={mode}",
        a.shape,
        dtype,
        Span(lo - 1, hi + 1, exact, not exact),
    )


@ROWS.add("pow_number", 3)
def _pow_number(draft: Draft) -> None:
    x = operand(draft, FLOATS)
    text = draft.dice.one_of(("2", "3", "2.0", "0.5", "-1", "-0.5", "1", "0", "1.5"))
    power = float(text)
    x = guarded(draft, x, *((-20, 20) if power in (2, 3, 1, 0) else (0.1, 100)))
    lo, hi = (
        even(lambda v: abs(v) ** power)
        if power in (0, 2)
        else rising(lambda v: v**power)
        if power > 0
        else falling(lambda v: v**power)
    )(x.span.lo, x.span.hi)
    span = Span(
        lo, hi, x.span.whole and power in (0, 1, 2, 3), x.span.rounded or not (x.span.whole and power in (0, 1, 2, 3))
    )
    if draft.dice.chance(0.5):
        draft.emit(f"{x.name} ** {text}", x.shape, x.dtype, span, [x])
    else:
        spelled(draft, "pow", "fmi", [x], text, x.shape, x.dtype, span)


@ROWS.add("pow_of_number", 1)
def _pow_of_number(draft: Draft) -> None:
    x = guarded(draft, operand(draft, FLOATS), -4, 4)
    base = draft.dice.one_of(("2", "0.5", "3.0"))
    lo, hi = sorted((float(base) ** x.span.lo, float(base) ** x.span.hi))
    draft.emit(
        draft.dice.one_of((f"{base} ** {x.name}", f"torch.pow({base}, {x.name})")), x.shape, x.dtype, Span(lo, hi), [x]
    )


@ROWS.add("rdiv", 1)
def _rdiv(draft: Draft) -> None:
    x = guarded(draft, operand(draft, FLOATS), 0.1, inf)
    text, span = number(draft, x.dtype)
    lo, hi = corners(lambda a, b: a / b, span, x.span)
    draft.emit(f"{text} / {x.name}", x.shape, x.dtype, Span(lo, hi), [x])
