"""Functions of one element: rows of unary, binary and ternary operators, comparisons, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import companion, factor, guarded, number, operand, shaped
from fxmorph.programs.generator.promotion import (
    ANY, COMPLEX, FLOATS, NUMBERS, WHOLES, floated, number_dtype, promote, result_dtype, sort_of,
)  # fmt: skip
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.shapes import Shape, broadcast
from fxmorph.programs.generator.spans import TRUTH, Image, NoFit, Span, corners, even, falling, fixed, rising
from fxmorph.programs.generator.spelling import dtype_of, spelled

INF = math.inf


@dataclass(frozen=True)
class Unary:
    """A function of one operand."""

    name: str
    image: Image
    domain: tuple[float, float] = (-inf, inf)
    forms: str = "fmio"
    dtypes: tuple[str, ...] = FLOATS
    #: A decision: drawn only where rounding cannot move it.
    decides: bool = False
    #: Keeps dtypes of whole numbers; else they become floats.
    keeps: bool = False
    #: Whole numbers stay whole, and nothing is rounded.
    exact: bool = False
    #: What arguments follow, one of them.
    arguments: tuple[str, ...] = ("",)
    truth: bool = False


WIDE = ("bool", *NUMBERS)
#: Dtypes of most kernels of torch.special.
WIDER = ("float32", "float64")
IMAGES = {"same": lambda lo, hi: (lo, hi), "unit": fixed(-1, 1), "share": fixed(0, 1)}
_activation: Callable[[float], Image] = lambda least: lambda lo, hi: (least, max(hi, 0.0) + 0.1)  # noqa: E731

UNARY = (
    Unary("sin", fixed(-1, 1), dtypes=WIDE), Unary("cos", fixed(-1, 1), dtypes=WIDE),
    Unary("tanh", fixed(-1, 1), dtypes=WIDE), Unary("sigmoid", fixed(0, 1), dtypes=WIDE),
    Unary("erf", fixed(-1, 1)), Unary("erfc", fixed(0, 2)), Unary("atan", fixed(-1.6, 1.6)), Unary("arctan", fixed(-1.6, 1.6)),
    Unary("sinc", fixed(-0.3, 1)), Unary("sinh", rising(math.sinh), (-4, 4)), Unary("cosh", even(math.cosh), (-4, 4)),
    Unary("asinh", rising(math.asinh)), Unary("acosh", rising(math.acosh), (1.25, 900)),
    Unary("atanh", rising(math.atanh), (-0.9, 0.9)), Unary("asin", fixed(-1.6, 1.6), (-0.9, 0.9)),
    Unary("acos", fixed(0, 3.2), (-0.9, 0.9)), Unary("tan", rising(math.tan), (-1.2, 1.2)),
    Unary("exp", rising(math.exp), (-8, 5)), Unary("exp2", rising(lambda x: 2.0**x), (-8, 6)),
    Unary("expm1", rising(math.expm1), (-8, 5)), Unary("log", rising(math.log), (0.1, inf)),
    Unary("log2", rising(math.log2), (0.1, inf)), Unary("log10", rising(math.log10), (0.1, inf)),
    Unary("log1p", rising(math.log1p), (-0.5, inf)), Unary("sqrt", rising(math.sqrt), (0.1, inf)),
    Unary("rsqrt", falling(lambda x: x**-0.5), (0.1, inf)), Unary("reciprocal", falling(lambda x: 1 / x), (0.1, inf)),
    Unary("lgamma", fixed(-0.2, 60), (0.5, 20)), Unary("digamma", fixed(-2, 3), (0.5, 20)),
    Unary("erfinv", rising(lambda x: 1.3 * math.atanh(x)), (-0.9, 0.9)), Unary("logit", rising(lambda x: math.log(x / (1 - x))), (0.1, 0.9)),
    Unary("i0", lambda lo, hi: (1, math.exp(max(-lo, hi, 1))), (-4, 4)), Unary("deg2rad", rising(math.radians)),
    Unary("rad2deg", rising(math.degrees), (-50, 50)), Unary("nan_to_num", IMAGES["same"], exact=True, arguments=("", "0.5", "nan=1.0, posinf=2.0")),
    Unary("abs", even(abs), exact=True, keeps=True, dtypes=NUMBERS), Unary("neg", falling(lambda x: -x), exact=True, keeps=True, dtypes=(*NUMBERS, *COMPLEX)),
    Unary("negative", falling(lambda x: -x), exact=True, keeps=True, dtypes=NUMBERS),
    Unary("positive", IMAGES["same"], forms="fm", exact=True, keeps=True, dtypes=(*NUMBERS, *COMPLEX)),
    Unary("square", even(lambda x: x * x), keeps=True, dtypes=NUMBERS),
    Unary("relu", lambda lo, hi: (max(lo, 0), max(hi, 0)), forms="fminN", exact=True, keeps=True, dtypes=NUMBERS),
    Unary("sign", fixed(-1, 1), decides=True, exact=True, keeps=True, dtypes=NUMBERS),
    Unary("sgn", fixed(-1, 1), decides=True, exact=True, keeps=True, dtypes=NUMBERS),
    Unary("floor", rising(lambda x: math.floor(x)), decides=True, exact=True, keeps=True, dtypes=NUMBERS),
    Unary("ceil", rising(lambda x: math.ceil(x)), decides=True, exact=True, keeps=True, dtypes=NUMBERS),
    Unary("round", rising(lambda x: round(x)), decides=True, exact=True, keeps=True, dtypes=NUMBERS),
    Unary("trunc", rising(lambda x: math.trunc(x)), decides=True, exact=True, keeps=True, dtypes=NUMBERS),
    Unary("fix", rising(lambda x: math.trunc(x)), decides=True, exact=True, dtypes=FLOATS),
    Unary("frac", fixed(-1, 1), decides=True, dtypes=FLOATS),
    Unary("isnan", fixed(0, 1), forms="fm", truth=True, dtypes=(*WIDE, *COMPLEX)), Unary("isinf", fixed(0, 1), forms="fm", truth=True, dtypes=WIDE),
    Unary("isfinite", fixed(0, 1), forms="fm", truth=True, dtypes=WIDE), Unary("isneginf", fixed(0, 1), forms="fmo", truth=True, dtypes=NUMBERS),
    Unary("isposinf", fixed(0, 1), forms="fmo", truth=True, dtypes=NUMBERS), Unary("signbit", fixed(0, 1), forms="fmo", truth=True, decides=True, dtypes=NUMBERS),
    Unary("isreal", fixed(0, 1), forms="fm", truth=True, dtypes=(*WIDE, *COMPLEX)),
    Unary("logical_not", fixed(0, 1), forms="fmo", truth=True, decides=True, dtypes=WIDE),
    Unary("bitwise_not", falling(lambda x: -x - 1), exact=True, keeps=True, dtypes=("int8", "int32", "int64")),
    Unary("gelu", _activation(-0.2), forms="n", arguments=("", "approximate='tanh'", "approximate='none'")),
    Unary("silu", _activation(-0.3), forms="nN"), Unary("mish", _activation(-0.4), forms="nN"),
    Unary("elu", lambda lo, hi: (max(lo, -2) - 0.1, max(hi, 0)), forms="nN", arguments=("", "1.5", "alpha=0.5")),
    Unary("celu", lambda lo, hi: (max(lo, -2) - 0.1, max(hi, 0)), forms="nN", arguments=("", "1.5", "alpha=0.5")),
    Unary("selu", lambda lo, hi: (-1.8, max(hi, 0) * 1.06), forms="nN"),
    Unary("softplus", lambda lo, hi: (0, max(hi, 0) + 1), forms="n", arguments=("", "beta=2.0", "beta=0.5, threshold=10", "1.0, 5.0")),
    Unary("softsign", fixed(-1, 1), forms="n"), Unary("logsigmoid", lambda lo, hi: (min(lo, 0) - 0.7, 0), forms="n"),
    Unary("tanhshrink", lambda lo, hi: (lo - 1, hi + 1), forms="n"), Unary("hardsigmoid", fixed(0, 1), forms="nN"),
    Unary("hardswish", _activation(-0.4), forms="nN"), Unary("relu6", fixed(0, 6), forms="nN"),
    Unary("hardtanh", fixed(-2, 2), forms="nN", arguments=("", "-2.0, 0.5", "min_val=-0.5, max_val=1.5")),
    Unary("leaky_relu", lambda lo, hi: (min(lo, 0), max(hi, 0)), forms="nN", arguments=("", "0.2", "negative_slope=0.3")),
    Unary("hardshrink", lambda lo, hi: (min(lo, 0), max(hi, 0)), forms="n", decides=True, arguments=("", "0.7", "lambd=0.3")),
    Unary("softshrink", lambda lo, hi: (min(lo, 0), max(hi, 0)), forms="n", arguments=("", "0.7", "lambd=0.3")),
    Unary("threshold", lambda lo, hi: (min(lo, -1), max(hi, 2)), forms="nN", decides=True, arguments=("0.5, 2.0", "-0.25, -1.0")),
    Unary("expit", fixed(0, 1), forms="l", dtypes=WIDER), Unary("ndtr", fixed(0, 1), forms="l", dtypes=WIDER), Unary("entr", fixed(-1100, 1), (0.1, 200), forms="l", dtypes=WIDER),
    Unary("i0e", fixed(0, 1), forms="l", dtypes=WIDER), Unary("i1", lambda lo, hi: (min(math.sinh(lo), 0), max(math.sinh(hi), 0)), (-4, 4), forms="l", dtypes=WIDER), Unary("i1e", fixed(-1, 1), forms="l", dtypes=WIDER),
    Unary("log_ndtr", fixed(-30, 0), (-6, inf), forms="l", dtypes=WIDER), Unary("erfcx", fixed(0, 120), (-2, 20), forms="l", dtypes=WIDER),
    Unary("ndtri", fixed(-1.5, 1.5), (0.1, 0.9), forms="l", dtypes=WIDER),
    Unary("gammaln", fixed(-0.2, 60), (0.5, 20), forms="l", dtypes=WIDER), Unary("psi", fixed(-2, 3), (0.5, 20), forms="l", dtypes=WIDER),
    Unary("bessel_j0", fixed(-1, 1), (-6, 6), forms="l", dtypes=WIDER),
    Unary("bessel_j1", fixed(-1, 1), (-6, 6), forms="l", dtypes=WIDER),
    Unary("bessel_y0", fixed(-2, 1), (0.5, 6), forms="l", dtypes=WIDER),
    Unary("modified_bessel_i0", lambda lo, hi: (1, math.exp(max(-lo, hi, 1))), (-4, 4), forms="l", dtypes=WIDER),
    Unary("modified_bessel_k0", fixed(0, 3), (0.2, 6), forms="l", dtypes=WIDER),
    Unary("spherical_bessel_j0", fixed(-1, 1), (0.2, 6), forms="l", dtypes=WIDER),
)  # fmt: skip

#: Functions without a derivative.
NO_GRADIENT = frozenset(
    """bessel_j0 bessel_j1 bessel_y0 modified_bessel_i0 modified_bessel_k0 spherical_bessel_j0 heaviside
    floor_divide""".split()
)


def draw_unary(row: Unary, draft: Draft) -> None:
    x = operand(draft, row.dtypes, exact=row.decides)
    if row.name in NO_GRADIENT and x.grad:
        raise NoFit("no derivative")
    x = guarded(draft, x, *row.domain)
    dtype = "bool" if row.truth else x.dtype if row.keeps else floated(x.dtype)
    lo, hi = row.image(x.span.lo, x.span.hi)
    span = TRUTH if row.truth else Span(lo, hi, row.exact and (x.span.whole or row.decides), x.span.rounded or not row.exact)
    spelled(draft, row.name, row.forms, [x], draft.dice.one_of(row.arguments), x.shape, dtype, span)


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
    -2.0 ** math.ceil(math.log2(max(a.size, b.size, 1) + 1)) if min(a.lo, b.lo) < 0 else 0,
    2.0 ** math.ceil(math.log2(max(a.size, b.size, 1) + 1)) - 1,
)
_POSITIVE = ((0.1, inf), (-inf, inf))
_DIVISOR = ((-inf, inf), (0.5, inf))
BITWISE = ("bool", *WHOLES)

BINARY = (
    Binary("add", lambda a, b: (a.lo + b.lo, a.hi + b.hi), infix="+", exact=True, alpha=True, saves=False, dtypes=ANY),
    Binary("sub", lambda a, b: (a.lo - b.hi, a.hi - b.lo), infix="-", exact=True, alpha=True, saves=False, dtypes=(*NUMBERS, *COMPLEX)),
    Binary("subtract", lambda a, b: (a.lo - b.hi, a.hi - b.lo), exact=True, saves=False, dtypes=NUMBERS),
    Binary("rsub", lambda a, b: (b.lo - a.hi, b.hi - a.lo), forms="f", exact=True, alpha=True, saves=False, dtypes=NUMBERS),
    Binary("mul", partial(corners, lambda x, y: x * y), infix="*", exact=True, dtypes=WIDE),
    Binary("multiply", partial(corners, lambda x, y: x * y), exact=True, dtypes=NUMBERS),
    Binary("div", partial(corners, lambda x, y: x / y), _DIVISOR, infix="/", floats=True, dtypes=NUMBERS),
    Binary("true_divide", partial(corners, lambda x, y: x / y), _DIVISOR, floats=True, dtypes=NUMBERS),
    Binary("floor_divide", lambda a, b: (corners(lambda x, y: x / y, a, b)[0] - 1, corners(lambda x, y: x / y, a, b)[1]), ((-inf, inf), (1, inf)), infix="//", decides=True, exact=True, dtypes=NUMBERS),
    Binary("remainder", lambda a, b: (0, b.hi), ((-inf, inf), (1, inf)), infix="%", decides=True, exact=True, dtypes=NUMBERS),
    Binary("fmod", lambda a, b: (-b.hi, b.hi), ((-inf, inf), (1, inf)), decides=True, exact=True, dtypes=NUMBERS),
    Binary("pow", lambda a, b: (0, corners(lambda x, y: x**y, a, b)[1] * 1.01), ((0.25, 6), (-3, 3)), infix="**", dtypes=FLOATS),
    Binary("float_power", lambda a, b: (0, corners(lambda x, y: x**y, a, b)[1] * 1.01), ((0.25, 6), (-3, 3)), forms="fm", dtypes=("float64",)),
    Binary("atan2", lambda a, b: (-3.2, 3.2), ((-inf, inf), (0.1, inf)), floats=True, numbers=False, dtypes=FLOATS),
    Binary("hypot", lambda a, b: (0, a.size + b.size), _POSITIVE, numbers=False, dtypes=FLOATS),
    Binary("maximum", _most, forms="fmo", exact=True, numbers=False), Binary("minimum", _least, forms="fmo", exact=True, numbers=False),
    Binary("fmax", _most, forms="fmo", exact=True, numbers=False), Binary("fmin", _least, forms="fmo", exact=True, numbers=False),
    Binary("copysign", lambda a, b: (-a.size, a.size), floats=True, exact=True, decides=True, dtypes=FLOATS),
    Binary("logaddexp", lambda a, b: (max(a.lo, b.lo), max(a.hi, b.hi) + 1), forms="fmo", numbers=False, dtypes=FLOATS),
    Binary("logaddexp2", lambda a, b: (max(a.lo, b.lo), max(a.hi, b.hi) + 1), forms="fmo", numbers=False, dtypes=FLOATS),
    Binary("xlogy", lambda a, b: (-a.size * 7, a.size * 7), ((-inf, inf), (0.1, 500)), floats=True, dtypes=FLOATS),
    Binary("xlog1py", lambda a, b: (-a.size * 7, a.size * 7), ((-inf, inf), (-0.5, 500)), forms="l", floats=True, dtypes=FLOATS),
    Binary("heaviside", lambda a, b: (min(0, b.lo), max(1, b.hi)), decides=True, exact=True, numbers=False, dtypes=NUMBERS),
    Binary("ldexp", lambda a, b: (-a.size * 16, a.size * 16), ((-inf, inf), (-4, 4)), floats=True, numbers=False, dtypes=FLOATS),
    Binary("eq", _truth, infix="==", truth=True, decides=True, dtypes=ANY), Binary("ne", _truth, infix="!=", truth=True, decides=True, dtypes=ANY),
    Binary("lt", _truth, infix="<", truth=True, decides=True), Binary("le", _truth, infix="<=", truth=True, decides=True),
    Binary("gt", _truth, infix=">", truth=True, decides=True), Binary("ge", _truth, infix=">=", truth=True, decides=True),
    Binary("greater", _truth, truth=True, decides=True), Binary("not_equal", _truth, truth=True, decides=True),
    Binary("isclose", _truth, forms="fm", truth=True, decides=True, numbers=False, dtypes=FLOATS),
    Binary("logical_and", _truth, forms="fmo", truth=True, decides=True, numbers=False), Binary("logical_or", _truth, forms="fmo", truth=True, decides=True, numbers=False),
    Binary("logical_xor", _truth, forms="fmo", truth=True, decides=True, numbers=False),
    Binary("bitwise_and", _bits, infix="&", exact=True, dtypes=BITWISE), Binary("bitwise_or", _bits, infix="|", exact=True, dtypes=BITWISE),
    Binary("bitwise_xor", _bits, infix="^", exact=True, dtypes=BITWISE),
    Binary("bitwise_left_shift", lambda a, b: (min(a.lo, 0) * 8, max(a.hi, 0) * 8), ((-inf, inf), (0, 3)), infix="<<", exact=True, dtypes=("int32", "int64")),
    Binary("bitwise_right_shift", lambda a, b: (min(a.lo, 0), max(a.hi, 0)), ((-inf, inf), (0, 3)), infix=">>", exact=True, dtypes=WHOLES),
    Binary("gcd", lambda a, b: (0, a.size + b.size), exact=True, numbers=False, dtypes=("int32", "int64", "uint8")),
    Binary("lcm", lambda a, b: (0, max(a.size, 1) * max(b.size, 1)), exact=True, numbers=False, dtypes=("int32", "int64")),
)  # fmt: skip


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
    return not (row.name in ("gcd", "lcm", "heaviside", "float_power", "hypot", "atan2") and a != b)


def _binary_span(row: Binary, a: Value, other: Span, dtype: str, alpha: float, whole: bool) -> tuple[Span, str]:
    if row.truth:
        return TRUTH, "bool"
    scaled = Span(*sorted((other.lo * alpha, other.hi * alpha)), other.whole, other.rounded)
    left, right = (scaled, other) if row.name == "rsub" else (a.span, scaled)
    if row.name == "rsub":
        left, right = Span(*sorted((a.span.lo * alpha, a.span.hi * alpha))), other
    lo, hi = row.image(left, right)
    if row.floats:
        dtype = floated(dtype)
    exact = row.exact and (a.span.whole and whole or row.name in SELECTS)
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
    text, other = ("True", Span(1, 1, True, False)) if kind == "bool" and row.dtypes == BITWISE else number(
        draft, kind, max(lo, -4), min(hi, 4)
    )  # fmt: skip
    if a.dtype == "bool" and row.dtypes == BITWISE:
        text, other = draft.dice.one_of((("True", Span(1, 1, True, False)), ("False", Span(0, 0, True, False))))
    counted = number_dtype(True if text in ("True", "False") else float(text) if "." in text else int(text))
    dtype = result_dtype([(a.dtype, a.rank), (counted, None)])
    span, dtype = _binary_span(row, a, other, dtype, 1.0, other.whole)
    if row.infix and draft.dice.chance(0.55):
        flipped = row.name in ("add", "mul") and draft.dice.chance(0.4)
        draft.emit(f"{text} {row.infix} {a.name}" if flipped else f"{a.name} {row.infix} {text}", a.shape, dtype, span, [a], saves=row.saves)
        return
    forms = row.forms.replace("o", "") if row.name in ("rsub", "copysign", "xlogy") else row.forms
    spelled(draft, row.name, forms, [a], text, a.shape, dtype, span, row.saves)


POINTWISE: Rows = Rows()
POINTWISE += [Row(row.name, partial(draw_unary, row), 0.7) for row in UNARY]
POINTWISE += [Row(row.name, partial(draw_binary, row), 2.0 if row.infix else 1.0) for row in BINARY]


@POINTWISE.add("div_rounding", 2)
def _div_rounding(draft: Draft) -> None:
    a = operand(draft, NUMBERS, exact=True)
    mode = draft.dice.one_of(("'floor'", "'trunc'"))
    text, other = number(draft, a.dtype, 1, 5)
    counted = "float32" if "." in text else "int64"
    dtype = result_dtype([(a.dtype, a.rank), (counted, None)])
    lo, hi = corners(lambda x, y: x / y, a.span, other)
    exact = a.span.whole and other.whole
    spelled(draft, draft.dice.one_of(("div", "divide")), "fmi", [a], f"{text}, rounding_mode={mode}", a.shape, dtype, Span(lo - 1, hi, exact, not exact))


@POINTWISE.add("pow_number", 3)
def _pow_number(draft: Draft) -> None:
    x = operand(draft, FLOATS)
    text = draft.dice.one_of(("2", "3", "2.0", "0.5", "-1", "-0.5", "1", "0", "1.5"))
    power = float(text)
    x = guarded(draft, x, *((-20, 20) if power in (2, 3, 1, 0) else (0.1, 100)))
    lo, hi = (even(lambda v: abs(v) ** power) if power in (0, 2) else rising(lambda v: v**power) if power > 0 else falling(lambda v: v**power))(x.span.lo, x.span.hi)
    span = Span(lo, hi, x.span.whole and power in (0, 1, 2, 3), x.span.rounded or not (x.span.whole and power in (0, 1, 2, 3)))
    if draft.dice.chance(0.5):
        draft.emit(f"{x.name} ** {text}", x.shape, x.dtype, span, [x])
    else:
        spelled(draft, "pow", "fmi", [x], text, x.shape, x.dtype, span)


@POINTWISE.add("pow_of_number", 1)
def _pow_of_number(draft: Draft) -> None:
    x = guarded(draft, operand(draft, FLOATS), -4, 4)
    base = draft.dice.one_of(("2", "0.5", "3.0"))
    lo, hi = sorted((float(base) ** x.span.lo, float(base) ** x.span.hi))
    draft.emit(draft.dice.one_of((f"{base} ** {x.name}", f"torch.pow({base}, {x.name})")), x.shape, x.dtype, Span(lo, hi), [x])


@POINTWISE.add("rdiv", 1)
def _rdiv(draft: Draft) -> None:
    x = guarded(draft, operand(draft, FLOATS), 0.1, inf)
    text, span = number(draft, x.dtype)
    lo, hi = corners(lambda a, b: a / b, span, x.span)
    draft.emit(f"{text} / {x.name}", x.shape, x.dtype, Span(lo, hi), [x])


@POINTWISE.add("where", 6)
def _where(draft: Draft) -> None:
    a = operand(draft, (*WIDE, *COMPLEX))
    mask = condition(draft, a)
    if draft.dice.chance(0.35) and sort_of(a.dtype) < 3:
        text, span = number(draft, a.dtype)
        dtype = result_dtype([(a.dtype, a.rank), ("float32" if "." in text else "int64", None)])
        order = draft.dice.one_of((f"{a.name}, {text}", f"{text}, {a.name}"))
        draft.emit(f"torch.where({mask.name}, {order})", broadcast(mask.shape, a.shape), dtype, span.join(a.span), [mask, a])
        return
    b = companion(draft, a, tuple(d for d in (*WIDE, *COMPLEX) if (d in COMPLEX) == (a.dtype in COMPLEX)))
    shape, dtype = broadcast(mask.shape, a.shape, b.shape), result_dtype([(a.dtype, a.rank), (b.dtype, b.rank)])
    text = f"torch.where({mask.name}, {a.name}, {b.name})" if draft.dice.chance(0.6) else f"{a.name}.where({mask.name}, {b.name})"
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


@POINTWISE.add("addcmul", 2)
def _addcmul(draft: Draft) -> None:
    _three(draft, "addcmul", lambda b, c: corners(lambda x, y: x * y, b, c), (-inf, inf))


@POINTWISE.add("addcdiv", 2)
def _addcdiv(draft: Draft) -> None:
    _three(draft, "addcdiv", lambda b, c: corners(lambda x, y: x / y, b, c), (0.5, inf))


def _three(draft: Draft, name: str, image: Callable[[Span, Span], tuple[float, float]], domain: tuple[float, float]) -> None:
    a = operand(draft, FLOATS)
    b = companion(draft, a, (a.dtype,))
    shape = broadcast(a.shape, b.shape)
    c = guarded(draft, shaped(draft, draft.dice.one_of((shape, b.shape)), a.dtype, reuse=0.4), *domain)
    value = factor(draft, a.dtype) if draft.dice.chance(0.5) else ""
    lo, hi = sorted(float(value or 1) * bound for bound in image(b.span, c.span))
    whole = name == "addcmul" and a.span.whole and b.span.whole and c.span.whole and float(value or 1) % 1 == 0
    span = Span(a.span.lo + lo, a.span.hi + hi, whole, not whole or a.span.rounded or b.span.rounded or c.span.rounded)
    spelled(draft, name, "fmio", [a, b, c], f"value={value}" if value else "", broadcast(shape, c.shape), a.dtype, span)


@POINTWISE.add("lerp", 2)
def _lerp(draft: Draft) -> None:
    a = operand(draft, FLOATS)
    b = companion(draft, a, (a.dtype,), within=a.shape)
    if draft.dice.chance(0.5):
        weight = draft.dice.one_of(("0.25", "0.5", "0.75", "weight=0.3"))
        spelled(draft, "lerp", "fmio", [a, b], weight, a.shape, a.dtype, a.span.join(b.span)._replace(whole=False, rounded=True))
    else:
        w = guarded(draft, shaped(draft, a.shape, a.dtype, 0, 1), 0, 1)
        spelled(draft, "lerp", "fmio", [a, b, w], "", a.shape, a.dtype, a.span.join(b.span)._replace(whole=False, rounded=True))


@POINTWISE.add("clamp", 4)
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


@POINTWISE.add("clamp_tensor", 2)
def _clamp_tensor(draft: Draft) -> None:
    x = operand(draft, NUMBERS)
    b = companion(draft, x, (x.dtype,), within=x.shape)
    name, keyword, image = draft.dice.one_of((("clamp_min", "", _most), ("clamp_max", "", _least), ("clamp", "min=", _most), ("clamp", "max=", _least)))
    lo, hi = image(x.span, b.span)
    span = Span(lo, hi, x.span.whole and b.span.whole, x.span.rounded or b.span.rounded)
    if keyword:
        draft.emit(f"torch.clamp({x.name}, {keyword}{b.name})", x.shape, x.dtype, span, [x, b])
    else:
        spelled(draft, name, "fmio", [x, b], "", x.shape, x.dtype, span)


@POINTWISE.add("cast", 6)
def _cast(draft: Draft) -> None:
    x = operand(draft, ANY)
    allowed = [d for d in (*FLOATS, "int64", "int32", "int8", "uint8", "bool", "complex64") if d != x.dtype]
    if x.dtype in COMPLEX:
        allowed = ["complex64", "complex128"]
    if not x.exact:
        allowed = [d for d in allowed if sort_of(d) > 1]
    dtype = draft.dice.one_of([d for d in allowed if d != x.dtype])
    narrower = sort_of(dtype) == 2 and not x.span.whole and promote(dtype, x.dtype) != dtype
    whole = x.span.whole or sort_of(dtype) < 2
    lo, hi = (0.0, 1.0) if dtype == "bool" else (math.trunc(x.span.lo), math.trunc(x.span.hi)) if sort_of(dtype) == 1 else x.span[:2]
    if dtype in COMPLEX:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    short = {"float32": "float", "float64": "double", "float16": "half", "int64": "long", "int32": "int", "bool": "bool", "bfloat16": "bfloat16"}
    texts = [f"{x.name}.to(torch.{dtype})", f"{x.name}.type(torch.{dtype})", f"{x.name}.to(dtype=torch.{dtype})"]
    texts += [f"{x.name}.{short[dtype]}()"] if dtype in short else []
    draft.emit(draft.dice.one_of(texts), x.shape, dtype, Span(lo, hi, whole, x.span.rounded or narrower), [x], saves=False)


@POINTWISE.add("type_as", 1)
def _type_as(draft: Draft) -> None:
    x = operand(draft, FLOATS)
    other = draft.take(lambda v: v.dtype in FLOATS and v.dtype != x.dtype)
    draft.emit(f"{x.name}.type_as({other.name})", x.shape, other.dtype, x.span._replace(rounded=True), [x, other], saves=False)


@POINTWISE.add("complex", 3)
def _complex(draft: Draft) -> None:
    x = operand(draft, ("float32", "float64"))
    y = shaped(draft, x.shape, x.dtype)
    dtype = "complex64" if x.dtype == "float32" else "complex128"
    if draft.dice.chance(0.7):
        draft.emit(f"torch.complex({x.name}, {y.name})", x.shape, dtype, x.span.join(y.span), [x, y])
    else:
        size = x.span.size
        draft.emit(f"torch.polar({x.name}, {y.name})", x.shape, dtype, Span(-size, size), [x, y])


@POINTWISE.add("complex_parts", 3)
def _complex_parts(draft: Draft) -> None:
    z = operand(draft, COMPLEX)
    part = "float32" if z.dtype == "complex64" else "float64"
    size = z.span.size * 1.5
    kind = draft.dice.below(4)
    if kind == 0:
        draft.emit(f"{draft.dice.one_of(('torch.abs({})', '{}.abs()')).format(z.name)}", z.shape, part, Span(0, size), [z])
    elif kind == 1:
        draft.emit(f"torch.view_as_real({z.name}).sum(-1)", z.shape, part, Span(-2 * size, 2 * size), [z])
    elif kind == 2:
        draft.emit(f"{z.name}.conj() * {z.name}", z.shape, z.dtype, Span(-2 * size * size, 2 * size * size), [z])
    else:
        draft.emit(f"torch.real({z.name}) - torch.imag({z.name})", z.shape, part, Span(-2 * size, 2 * size), [z])


@POINTWISE.add("complex_mul", 2)
def _complex_mul(draft: Draft) -> None:
    z = operand(draft, COMPLEX)
    other = companion(draft, z, (z.dtype,))
    size = 2 * z.span.size * other.span.size
    draft.emit(f"{z.name} * {other.name}", broadcast(z.shape, other.shape), z.dtype, Span(-size, size), [z, other])


@POINTWISE.add("complex_unary", 2)
def _complex_unary(draft: Draft) -> None:
    z = guarded_complex(draft)
    name, size = draft.dice.one_of((("exp", 30), ("sin", 30), ("cos", 30), ("sigmoid", 0), ("square", 18), ("tanh", 0)))
    if not size:
        raise NoFit("has poles")
    draft.emit(f"torch.{name}({z.name})", z.shape, z.dtype, Span(-size, size), [z])


def guarded_complex(draft: Draft) -> Value:
    """A complex value whose parts are at most 3."""
    z = operand(draft, COMPLEX)
    if z.span.size <= 3:
        return z
    return draft.emit(f"{z.name} / {max(2, math.ceil(z.span.size / 3))}", z.shape, z.dtype, Span(-3, 3), [z])


@POINTWISE.add("full_like", 2)
def _full_like(draft: Draft) -> None:
    x = operand(draft, WIDE)
    text, span = number(draft, x.dtype)
    typed, dtype = draft.dice.one_of((("", x.dtype), (", dtype=torch.float64", "float64"), (", dtype=torch.float32", "float32")))
    if sort_of(dtype) < 2 and "." in text:
        raise NoFit("a fraction")
    if dtype == "bool":
        text, span = "True", Span(1, 1, True, False)
    kind = draft.dice.below(3)
    made = [f"torch.full_like({x.name}, {text}{typed})", f"torch.zeros_like({x.name}{typed})", f"torch.ones_like({x.name}{typed})"][kind]
    value = (span, Span(0, 0, True, False), Span(1, 1, True, False))[kind]
    draft.emit(made, x.shape, dtype, value, [x], saves=False)


@POINTWISE.add("new_full", 1)
def _new_full(draft: Draft) -> None:
    x = operand(draft, NUMBERS)
    text, span = number(draft, x.dtype)
    if sort_of(x.dtype) < 2 and "." in text:
        raise NoFit("a fraction")
    shape = (2, 3)
    made = draft.dice.one_of((f"{x.name}.new_full({shape}, {text})", f"torch.full({shape}, {text}, dtype={dtype_of(x)})"))
    draft.emit(made, shape, x.dtype, span, [x], dense=True)


@POINTWISE.add("arange", 2)
def _arange(draft: Draft) -> None:
    n = draft.dice.one_of((1, 3, 5, 7, 8, 16, 17, 33))
    kind = draft.dice.below(4)
    if kind == 0:
        draft.emit(f"torch.arange({n})", (n,), "int64", Span(0, n - 1, True, False), [], dense=True)
    elif kind == 1:
        draft.emit(f"torch.arange(1, {2 * n}, 2, dtype=torch.float32)", (n,), "float32", Span(1, 2 * n, True, False), [], dense=True)
    elif kind == 2:
        draft.emit(f"torch.linspace(-1, 1, {n})", (n,), "float32", Span(-1, 1), [], dense=True)
    else:
        draft.emit(f"torch.eye({n}, {n + 2})", (n, n + 2), "float32", TRUTH, [], dense=True)
