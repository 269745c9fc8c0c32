"""Functions of two elements that broadcast, comparisons among them: a row each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import companion, factor, guarded, number, operand
from fxmorph.programs.generator.promotion import (
    ANY,
    COMPLEX,
    FLOATS,
    NUMBERS,
    WHOLES,
    floated,
    number_dtype,
    result_dtype,
    sort_of,
)
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import Shape, broadcast
from fxmorph.programs.generator.spans import TRUTH, NoFit, Span, corners
from fxmorph.programs.generator.spelling import spelled
from fxmorph.programs.generator.unary_rows import NO_GRADIENT, WIDE

ROWS = Rows()


@dataclass(frozen=True)
class Binary:
    """A function of two operands that broadcast."""

    name: str
    image: Callable[[Span, Span], tuple[float, float]]
    domains: tuple[tuple[float, float], tuple[float, float]] = ((-inf, inf), (-inf, inf))
    forms: str = "fmio"
    dtypes: tuple[str, ...] = WIDE
    #: An infix operator, or "".
    infix: str = ""
    floats: bool = False
    truth: bool = False
    decides: bool = False
    exact: bool = False
    #: Takes ``alpha``.
    alpha: bool = False
    #: Takes numbers of Python for the second operand.
    numbers: bool = True
    saves: bool = True


_most = lambda a, b: (max(a.lo, b.lo), max(a.hi, b.hi))  # noqa: E731

_least = lambda a, b: (min(a.lo, b.lo), min(a.hi, b.hi))  # noqa: E731

_truth = lambda a, b: (0.0, 1.0)  # noqa: E731

_bits = lambda a, b: (  # noqa: E731
    -(2.0 ** math.ceil(math.log2(max(a.size, b.size, 1) + 1))) if min(a.lo, b.lo) < 0 else 0,
    2.0 ** math.ceil(math.log2(max(a.size, b.size, 1) + 1)) - 1,
)

_POSITIVE = ((0.1, inf), (-inf, inf))

_DIVISOR = ((-inf, inf), (0.5, inf))

BITWISE = ("bool", *WHOLES)

BINARY = (
    Binary("add", lambda a, b: (a.lo + b.lo, a.hi + b.hi), infix="+", exact=True, alpha=True, saves=False, dtypes=ANY),
    Binary(
        "sub",
        lambda a, b: (a.lo - b.hi, a.hi - b.lo),
        infix="-",
        exact=True,
        alpha=True,
        saves=False,
        dtypes=(*NUMBERS, *COMPLEX),
    ),
    Binary("subtract", lambda a, b: (a.lo - b.hi, a.hi - b.lo), exact=True, saves=False, dtypes=NUMBERS),
    Binary(
        "rsub", lambda a, b: (b.lo - a.hi, b.hi - a.lo), forms="f", exact=True, alpha=True, saves=False, dtypes=NUMBERS
    ),
    Binary("mul", partial(corners, lambda x, y: x * y), infix="*", exact=True, dtypes=WIDE),
    Binary("multiply", partial(corners, lambda x, y: x * y), exact=True, dtypes=NUMBERS),
    Binary("div", partial(corners, lambda x, y: x / y), _DIVISOR, infix="/", floats=True, dtypes=NUMBERS),
    Binary("true_divide", partial(corners, lambda x, y: x / y), _DIVISOR, floats=True, dtypes=NUMBERS),
    Binary(
        "floor_divide",
        lambda a, b: (corners(lambda x, y: x / y, a, b)[0] - 1, corners(lambda x, y: x / y, a, b)[1]),
        ((-inf, inf), (1, inf)),
        infix="//",
        decides=True,
        exact=True,
        dtypes=NUMBERS,
    ),
    Binary(
        "remainder",
        lambda a, b: (0, b.hi),
        ((-inf, inf), (1, inf)),
        infix="%",
        decides=True,
        exact=True,
        dtypes=NUMBERS,
    ),
    Binary("fmod", lambda a, b: (-b.hi, b.hi), ((-inf, inf), (1, inf)), decides=True, exact=True, dtypes=NUMBERS),
    Binary(
        "pow",
        lambda a, b: (0, corners(lambda x, y: x**y, a, b)[1] * 1.01),
        ((0.25, 6), (-3, 3)),
        infix="**",
        dtypes=FLOATS,
    ),
    Binary(
        "float_power",
        lambda a, b: (0, corners(lambda x, y: x**y, a, b)[1] * 1.01),
        ((0.25, 6), (-3, 3)),
        forms="fm",
        dtypes=("float64",),
    ),
    Binary("atan2", lambda a, b: (-3.2, 3.2), ((-inf, inf), (0.1, inf)), floats=True, numbers=False, dtypes=FLOATS),
    Binary("hypot", lambda a, b: (0, a.size + b.size), _POSITIVE, numbers=False, dtypes=FLOATS),
    Binary("maximum", _most, forms="fmo", exact=True, numbers=False),
    Binary("minimum", _least, forms="fmo", exact=True, numbers=False),
    Binary("fmax", _most, forms="fmo", exact=True, numbers=False),
    Binary("fmin", _least, forms="fmo", exact=True, numbers=False),
    Binary("copysign", lambda a, b: (-a.size, a.size), floats=True, exact=True, decides=True, dtypes=FLOATS),
    Binary("logaddexp", lambda a, b: (max(a.lo, b.lo), max(a.hi, b.hi) + 1), forms="fmo", numbers=False, dtypes=FLOATS),
    Binary(
        "logaddexp2", lambda a, b: (max(a.lo, b.lo), max(a.hi, b.hi) + 1), forms="fmo", numbers=False, dtypes=FLOATS
    ),
    Binary("xlogy", lambda a, b: (-a.size * 7, a.size * 7), ((-inf, inf), (0.1, 500)), floats=True, dtypes=FLOATS),
    Binary(
        "xlog1py",
        lambda a, b: (-a.size * 7, a.size * 7),
        ((-inf, inf), (-0.5, 500)),
        forms="l",
        floats=True,
        dtypes=FLOATS,
    ),
    Binary(
        "heaviside", lambda a, b: (min(0, b.lo), max(1, b.hi)), decides=True, exact=True, numbers=False, dtypes=NUMBERS
    ),
    Binary(
        "ldexp",
        lambda a, b: (-a.size * 16, a.size * 16),
        ((-inf, inf), (-4, 4)),
        forms="fmo",
        floats=True,
        numbers=False,
        dtypes=FLOATS,
    ),
    Binary("eq", _truth, infix="==", truth=True, decides=True, dtypes=ANY),
    Binary("ne", _truth, infix="!=", truth=True, decides=True, dtypes=ANY),
    Binary("lt", _truth, infix="<", truth=True, decides=True),
    Binary("le", _truth, infix="<=", truth=True, decides=True),
    Binary("gt", _truth, infix=">", truth=True, decides=True),
    Binary("ge", _truth, infix=">=", truth=True, decides=True),
    Binary("greater", _truth, truth=True, decides=True),
    Binary("not_equal", _truth, truth=True, decides=True),
    Binary("isclose", _truth, forms="fm", truth=True, decides=True, numbers=False, dtypes=FLOATS),
    Binary("logical_and", _truth, forms="fmo", truth=True, decides=True, numbers=False),
    Binary("logical_or", _truth, forms="fmo", truth=True, decides=True, numbers=False),
    Binary("logical_xor", _truth, forms="fmo", truth=True, decides=True, numbers=False),
    Binary("bitwise_and", _bits, infix="&", exact=True, dtypes=BITWISE),
    Binary("bitwise_or", _bits, infix="|", exact=True, dtypes=BITWISE),
    Binary("bitwise_xor", _bits, infix="^", exact=True, dtypes=BITWISE),
    Binary(
        "bitwise_left_shift",
        lambda a, b: (min(a.lo, 0) * 8, max(a.hi, 0) * 8),
        ((-inf, inf), (0, 3)),
        infix="<<",
        exact=True,
        dtypes=("int32", "int64"),
    ),
    Binary(
        "bitwise_right_shift",
        lambda a, b: (min(a.lo, 0), max(a.hi, 0)),
        ((-inf, inf), (0, 3)),
        infix=">>",
        exact=True,
        dtypes=WHOLES,
    ),
    Binary("gcd", lambda a, b: (0, a.size + b.size), exact=True, numbers=False, dtypes=("int32", "int64", "uint8")),
    Binary(
        "lcm", lambda a, b: (0, max(a.size, 1) * max(b.size, 1)), exact=True, numbers=False, dtypes=("int32", "int64")
    ),
)


def draw_binary(row: Binary, draft: Draft) -> None:
    a = operand(draft, row.dtypes, exact=row.decides)
    a = guarded(draft, a, *row.domains[0])
    if row.numbers and draft.dice.chance(0.3):
        _with_number(row, draft, a)
        return
    allowed = tuple(d for d in row.dtypes if _go_together(row, a.dtype, d))
    b = guarded(draft, companion(draft, a, allowed), *row.domains[1])
    if row.name in NO_GRADIENT and (a.grad or b.grad):
        raise NoFit("no derivative")
    if row.decides and not b.exact:
        raise NoFit("rounding decides")
    dtype = result_dtype([(a.dtype, a.rank), (b.dtype, b.rank)])
    alpha = factor(draft, dtype) if row.alpha and sort_of(dtype) and draft.dice.chance(0.3) else ""
    span, dtype = _binary_span(row, a, b.span, dtype, float(alpha or 1), b.span.whole)
    shape = broadcast(a.shape, b.shape)
    if row.infix and not alpha and draft.dice.chance(0.5):
        _infix(row, draft, a, b, shape, dtype, span)
    else:
        spelled(draft, row.name, row.forms, [a, b], f"alpha={alpha}" if alpha else "", shape, dtype, span, row.saves)


def _go_together(row: Binary, a: str, b: str) -> bool:
    both = {a, b}
    if row.name in ("sub", "subtract", "rsub") and "bool" in both:
        return False
    if both & set(COMPLEX):
        return both <= {*COMPLEX, "float32", "float64"}
    # Wide operands would be cut to the narrow ones of a method written in place.
    return not (row.name in ("gcd", "lcm", "heaviside", "float_power", "hypot", "atan2", "isclose") and a != b)


def _binary_span(row: Binary, a: Value, other: Span, dtype: str, alpha: float, whole: bool) -> tuple[Span, str]:
    if row.truth:
        return TRUTH, "bool"
    lo, hi = row.image(a.span.scaled(alpha), other) if row.name == "rsub" else row.image(a.span, other.scaled(alpha))
    if row.floats:
        dtype = floated(dtype)
    exact = row.exact and ((a.span.whole and whole) or row.name in SELECTS)
    rounded = a.span.rounded or other.rounded or not exact
    return Span(lo, hi, exact and a.span.whole and whole and alpha == int(alpha), rounded), dtype


#: Their results are operands as they are.
SELECTS = frozenset("maximum minimum fmax fmin copysign heaviside".split())

INFIX_IN_PLACE = frozenset("+ - * / // % & | ^ ** << >>".split())


def _infix(row: Binary, draft: Draft, a: Value, b: Value, shape: Shape, dtype: str, span: Span) -> None:
    able = draft.writable(a) and a.shape == shape and a.dtype == dtype and draft.may_take_grad(a, [b])
    if row.infix in INFIX_IN_PLACE and able and draft.dice.chance(0.2):
        draft.write(f"{a.name} {row.infix}= {draft.apart(b, a, same=True)}", a, span, [b], row.saves, named=0)
    else:
        draft.emit(f"{a.name} {row.infix} {b.name}", shape, dtype, span, [a, b], saves=row.saves)


def _with_number(row: Binary, draft: Draft, a: Value) -> None:
    lo, hi = row.domains[1]
    if row.name in NO_GRADIENT and a.grad:
        raise NoFit("no derivative")
    kind = "int64" if row.dtypes in (BITWISE, WHOLES, ("int32", "int64")) else a.dtype
    text, other = (
        ("True", Span(1, 1, True, False))
        if kind == "bool" and row.dtypes == BITWISE
        else number(draft, kind, max(lo, -4), min(hi, 4))
    )
    if a.dtype == "bool" and row.dtypes == BITWISE:
        text, other = draft.dice.one_of((("True", Span(1, 1, True, False)), ("False", Span(0, 0, True, False))))
    counted = number_dtype(True if text in ("True", "False") else float(text) if "." in text else int(text))
    dtype = result_dtype([(a.dtype, a.rank), (counted, None)])
    span, dtype = _binary_span(row, a, other, dtype, 1.0, other.whole)
    if row.infix and draft.dice.chance(0.55):
        flipped = row.name in ("add", "mul") and draft.dice.chance(0.4)
        draft.emit(
            f"{text} {row.infix} {a.name}" if flipped else f"{a.name} {row.infix} {text}",
            a.shape,
            dtype,
            span,
            [a],
            saves=row.saves,
        )
        return
    forms = row.forms.replace("o", "") if row.name in ("rsub", "copysign", "xlogy") else row.forms
    spelled(draft, row.name, forms, [a], text, a.shape, dtype, span, row.saves)


ROWS += [Row(row.name, partial(draw_binary, row), 2.0 if row.infix else 1.0) for row in BINARY]
