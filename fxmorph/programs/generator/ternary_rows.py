"""Choices, sums of products, bounds: functions of three elements."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from fxmorph.programs.generator.binary_rows import _least, _most
from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import companion, factor, guarded, number, operand, shaped
from fxmorph.programs.generator.promotion import (
    COMPLEX,
    FLOATS,
    NUMBERS,
    result_dtype,
    sort_of,
)
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import Shape, broadcast
from fxmorph.programs.generator.spans import TRUTH, NoFit, Span, corners
from fxmorph.programs.generator.spelling import spelled
from fxmorph.programs.generator.unary_rows import WIDE

ROWS = Rows()


@ROWS.add("where", 6)
def _where(draft: Draft) -> None:
    a = operand(draft, (*WIDE, *COMPLEX))
    mask = condition(draft, a)
    if draft.dice.chance(0.35) and sort_of(a.dtype) < 3:
        text, span = number(draft, a.dtype)
        dtype = result_dtype([(a.dtype, a.rank), ("float32" if "." in text else "int64", None)])
        order = draft.dice.one_of((f"{a.name}, {text}", f"{text}, {a.name}"))
        draft.emit(
            f"torch.where({mask.name}, {order})", broadcast(mask.shape, a.shape), dtype, span.join(a.span), [mask, a]
        )
        return
    b = companion(draft, a, tuple(d for d in (*WIDE, *COMPLEX) if (d in COMPLEX) == (a.dtype in COMPLEX)))
    shape, dtype = broadcast(mask.shape, a.shape, b.shape), result_dtype([(a.dtype, a.rank), (b.dtype, b.rank)])
    text = (
        f"torch.where({mask.name}, {a.name}, {b.name})"
        if draft.dice.chance(0.6)
        else f"{a.name}.where({mask.name}, {b.name})"
    )
    draft.emit(text, shape, dtype, a.span.join(b.span), [a, b, mask])


def condition(draft: Draft, like: Value) -> Value:
    """A bool tensor that broadcasts with a value, made by a comparison mostly."""
    if draft.dice.chance(0.5):
        found = draft.existing(lambda v: v.exact and v.dtype in NUMBERS and not v.bits and _meets(v.shape, like.shape))
        if found is not None:
            text, _ = number(draft, found.dtype, -2, 2)
            sign = draft.dice.one_of((">", "<", ">=", "<=", "!="))
            return draft.emit(f"{found.name} {sign} {text}", found.shape, "bool", TRUTH, [found])
    return companion(draft, like, ("bool",))


def _meets(a: Shape, b: Shape) -> bool:
    try:
        return len(broadcast(a, b)) <= 6
    except NoFit:
        return False


@ROWS.add("addcmul", 2)
def _addcmul(draft: Draft) -> None:
    _three(draft, "addcmul", lambda b, c: corners(lambda x, y: x * y, b, c), (-inf, inf))


@ROWS.add("addcdiv", 2)
def _addcdiv(draft: Draft) -> None:
    _three(draft, "addcdiv", lambda b, c: corners(lambda x, y: x / y, b, c), (0.5, inf))


def _three(
    draft: Draft, name: str, image: Callable[[Span, Span], tuple[float, float]], domain: tuple[float, float]
) -> None:
    a = operand(draft, FLOATS)
    b = companion(draft, a, (a.dtype,))
    shape = broadcast(a.shape, b.shape)
    c = guarded(draft, shaped(draft, draft.dice.one_of((shape, b.shape)), a.dtype, reuse=0.4), *domain)
    value = factor(draft, a.dtype) if draft.dice.chance(0.5) else ""
    lo, hi = sorted(float(value or 1) * bound for bound in image(b.span, c.span))
    whole = name == "addcmul" and a.span.whole and b.span.whole and c.span.whole and float(value or 1) % 1 == 0
    span = Span(a.span.lo + lo, a.span.hi + hi, whole, not whole or a.span.rounded or b.span.rounded or c.span.rounded)
    spelled(draft, name, "fmio", [a, b, c], f"value={value}" if value else "", broadcast(shape, c.shape), a.dtype, span)


@ROWS.add("lerp", 2)
def _lerp(draft: Draft) -> None:
    a = operand(draft, FLOATS)
    b = companion(draft, a, (a.dtype,), within=a.shape)
    if draft.dice.chance(0.5):
        weight = draft.dice.one_of(("0.25", "0.5", "0.75", "weight=0.3"))
        spelled(
            draft,
            "lerp",
            "fmio",
            [a, b],
            weight,
            a.shape,
            a.dtype,
            a.span.join(b.span)._replace(whole=False, rounded=True),
        )
    else:
        w = guarded(draft, shaped(draft, a.shape, a.dtype, 0, 1), 0, 1)
        spelled(
            draft,
            "lerp",
            "fmio",
            [a, b, w],
            "",
            a.shape,
            a.dtype,
            a.span.join(b.span)._replace(whole=False, rounded=True),
        )


@ROWS.add("clamp", 4)
def _clamp(draft: Draft) -> None:
    x = operand(draft, NUMBERS)
    low, a = number(draft, x.dtype, -2, 0) if x.dtype != "uint8" else ("1", Span(1, 1, True, False))
    high, b = number(draft, x.dtype, 1, 3)
    kind = draft.dice.below(5)
    arguments = (f"{low}, {high}", f"min={low}, max={high}", f"min={low}", f"max={high}", low)[kind]
    floor = a.lo if kind != 3 else x.span.lo
    ceiling = b.hi if kind < 2 or kind == 3 else x.span.hi
    exact = a.whole and b.whole and x.span.whole
    counted = [("float32" if "." in t else "int64", None) for t in (low, high) if t in arguments]
    dtype = result_dtype([(x.dtype, x.rank), *counted])
    span = Span(min(max(x.span.lo, floor), ceiling), min(max(x.span.hi, floor), ceiling), exact, x.span.rounded)
    if span.lo > span.hi or dtype != x.dtype:
        raise NoFit("bounds")
    spelled(draft, "clip" if draft.dice.chance(0.2) else "clamp", "fmio", [x], arguments, x.shape, dtype, span)


@ROWS.add("clamp_tensor", 2)
def _clamp_tensor(draft: Draft) -> None:
    x = operand(draft, NUMBERS)
    b = companion(draft, x, (x.dtype,), within=x.shape)
    name, keyword, image = draft.dice.one_of(
        (("clamp_min", "", _most), ("clamp_max", "", _least), ("clamp", "min=", _most), ("clamp", "max=", _least))
    )
    lo, hi = image(x.span, b.span)
    span = Span(lo, hi, x.span.whole and b.span.whole, x.span.rounded or b.span.rounded)
    if keyword:
        draft.emit(f"torch.clamp({x.name}, {keyword}{b.name})", x.shape, x.dtype, span, [x, b])
    else:
        spelled(draft, name, "fmio", [x, b], "", x.shape, x.dtype, span)
