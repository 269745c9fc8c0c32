"""Functions of one element: a row each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.operands import guarded, operand
from fxmorph.programs.generator.promotion import (
    COMPLEX,
    FLOATS,
    NUMBERS,
    floated,
)
from fxmorph.programs.generator.rows import Row, Rows
from fxmorph.programs.generator.spans import TRUTH, Image, NoFit, Span, even, falling, fixed, rising
from fxmorph.programs.generator.spelling import spelled

ROWS = Rows()


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
    Unary("sin", fixed(-1, 1), dtypes=WIDE),
    Unary("cos", fixed(-1, 1), dtypes=WIDE),
    Unary("tanh", fixed(-1, 1), dtypes=WIDE),
    Unary("sigmoid", fixed(0, 1), dtypes=WIDE),
    Unary("erf", fixed(-1, 1)),
    Unary("erfc", fixed(0, 2)),
    Unary("atan", fixed(-1.6, 1.6)),
    Unary("arctan", fixed(-1.6, 1.6)),
    Unary("sinc", fixed(-0.3, 1)),
    Unary("sinh", rising(math.sinh), (-4, 4)),
    Unary("cosh", even(math.cosh), (-4, 4)),
    Unary("asinh", rising(math.asinh), forms="fmo"),
    Unary("acosh", rising(math.acosh), (1.25, 900)),
    Unary("atanh", rising(math.atanh), (-0.9, 0.9)),
    Unary("asin", fixed(-1.6, 1.6), (-0.9, 0.9)),
    Unary("acos", fixed(0, 3.2), (-0.9, 0.9)),
    Unary("tan", rising(math.tan), (-1.2, 1.2)),
    Unary("exp", rising(math.exp), (-8, 5)),
    Unary("exp2", rising(lambda x: 2.0**x), (-8, 6)),
    Unary("expm1", rising(math.expm1), (-8, 5)),
    Unary("log", rising(math.log), (0.1, inf)),
    Unary("log2", rising(math.log2), (0.1, inf)),
    Unary("log10", rising(math.log10), (0.1, inf)),
    Unary("log1p", rising(math.log1p), (-0.5, inf)),
    Unary("sqrt", rising(math.sqrt), (0.1, inf)),
    Unary("rsqrt", falling(lambda x: x**-0.5), (0.1, inf)),
    Unary("reciprocal", falling(lambda x: 1 / x), (0.1, inf)),
    Unary("lgamma", fixed(-0.2, 60), (0.5, 20)),
    Unary("digamma", fixed(-2, 3), (0.5, 20)),
    Unary("erfinv", rising(lambda x: 1.3 * math.atanh(x)), (-0.9, 0.9)),
    Unary("logit", rising(lambda x: math.log(x / (1 - x))), (0.1, 0.9)),
    Unary("i0", lambda lo, hi: (1, math.exp(max(-lo, hi, 1))), (-4, 4)),
    Unary("deg2rad", rising(math.radians)),
    Unary("rad2deg", rising(math.degrees), (-50, 50)),
    Unary("nan_to_num", IMAGES["same"], exact=True, arguments=("", "0.5", "nan=1.0, posinf=2.0")),
    Unary("abs", even(abs), exact=True, keeps=True, dtypes=NUMBERS),
    Unary("neg", falling(lambda x: -x), exact=True, keeps=True, dtypes=(*NUMBERS, *COMPLEX)),
    Unary("negative", falling(lambda x: -x), exact=True, keeps=True, dtypes=NUMBERS),
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
    Unary("isnan", fixed(0, 1), forms="fm", truth=True, dtypes=(*WIDE, *COMPLEX)),
    Unary("isinf", fixed(0, 1), forms="fm", truth=True, dtypes=WIDE),
    Unary("isfinite", fixed(0, 1), forms="fm", truth=True, dtypes=WIDE),
    Unary("isneginf", fixed(0, 1), forms="fmo", truth=True, dtypes=NUMBERS),
    Unary("isposinf", fixed(0, 1), forms="fmo", truth=True, dtypes=NUMBERS),
    Unary("signbit", fixed(0, 1), forms="fmo", truth=True, decides=True, dtypes=NUMBERS),
    Unary("isreal", fixed(0, 1), forms="fm", truth=True, dtypes=(*WIDE, *COMPLEX)),
    Unary("logical_not", fixed(0, 1), forms="fmo", truth=True, decides=True, dtypes=WIDE),
    Unary("bitwise_not", falling(lambda x: -x - 1), exact=True, keeps=True, dtypes=("int8", "int32", "int64")),
    Unary("gelu", _activation(-0.2), forms="n", arguments=("", "approximate='tanh'", "approximate='none'")),
    Unary("silu", _activation(-0.3), forms="nN"),
    Unary("mish", _activation(-0.4), forms="nN"),
    Unary("elu", lambda lo, hi: (max(lo, -2) - 0.1, max(hi, 0)), forms="nN", arguments=("", "1.5", "alpha=0.5")),
    Unary("celu", lambda lo, hi: (max(lo, -2) - 0.1, max(hi, 0)), forms="nN", arguments=("", "1.5", "alpha=0.5")),
    Unary("selu", lambda lo, hi: (-1.8, max(hi, 0) * 1.06), forms="nN"),
    Unary(
        "softplus",
        lambda lo, hi: (0, max(hi, 0) + 2),
        forms="n",
        arguments=("", "beta=2.0", "beta=0.5, threshold=10", "1.0, 5.0"),
    ),
    Unary("softsign", fixed(-1, 1), forms="n"),
    Unary("logsigmoid", lambda lo, hi: (min(lo, 0) - 0.7, 0), forms="n"),
    Unary("tanhshrink", lambda lo, hi: (lo - 1, hi + 1), forms="n"),
    Unary("hardsigmoid", fixed(0, 1), forms="nN"),
    Unary("hardswish", _activation(-0.4), forms="nN"),
    Unary("relu6", fixed(0, 6), forms="nN"),
    Unary("hardtanh", fixed(-2, 2), forms="nN", arguments=("", "-2.0, 0.5", "min_val=-0.5, max_val=1.5")),
    Unary(
        "leaky_relu", lambda lo, hi: (min(lo, 0), max(hi, 0)), forms="nN", arguments=("", "0.2", "negative_slope=0.3")
    ),
    Unary(
        "hardshrink",
        lambda lo, hi: (min(lo, 0), max(hi, 0)),
        forms="n",
        decides=True,
        arguments=("", "0.7", "lambd=0.3"),
    ),
    Unary("softshrink", lambda lo, hi: (min(lo, 0), max(hi, 0)), forms="n", arguments=("", "0.7", "lambd=0.3")),
    Unary(
        "threshold",
        lambda lo, hi: (min(lo, -1), max(hi, 2)),
        forms="nN",
        decides=True,
        arguments=("0.5, 2.0", "-0.25, -1.0"),
    ),
    Unary("expit", fixed(0, 1), forms="l", dtypes=WIDER),
    Unary("ndtr", fixed(0, 1), forms="l", dtypes=WIDER),
    Unary("entr", fixed(-1100, 1), (0.1, 200), forms="l", dtypes=WIDER),
    Unary("i0e", fixed(0, 1), forms="l", dtypes=WIDER),
    Unary("i1", lambda lo, hi: (min(math.sinh(lo), 0), max(math.sinh(hi), 0)), (-4, 4), forms="l", dtypes=WIDER),
    Unary("i1e", fixed(-1, 1), forms="l", dtypes=WIDER),
    Unary("log_ndtr", fixed(-30, 0), (-6, inf), forms="l", dtypes=WIDER),
    Unary("erfcx", fixed(0, 120), (-2, 20), forms="l", dtypes=WIDER),
    Unary("ndtri", fixed(-1.5, 1.5), (0.1, 0.9), forms="l", dtypes=WIDER),
    Unary("gammaln", fixed(-0.2, 60), (0.5, 20), forms="l", dtypes=WIDER),
    Unary("psi", fixed(-2, 3), (0.5, 20), forms="l", dtypes=WIDER),
    Unary("bessel_j0", fixed(-1, 1), (-6, 6), forms="l", dtypes=WIDER),
    Unary("bessel_j1", fixed(-1, 1), (-6, 6), forms="l", dtypes=WIDER),
    Unary("bessel_y0", fixed(-2, 1), (0.5, 6), forms="l", dtypes=WIDER),
    Unary("modified_bessel_i0", lambda lo, hi: (1, math.exp(max(-lo, hi, 1))), (-4, 4), forms="l", dtypes=WIDER),
    Unary("modified_bessel_k0", fixed(0, 3), (0.2, 6), forms="l", dtypes=WIDER),
    Unary("spherical_bessel_j0", fixed(-1, 1), (0.2, 6), forms="l", dtypes=WIDER),
)

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
    span = (
        TRUTH
        if row.truth
        else Span(lo, hi, row.exact and (x.span.whole or row.decides), x.span.rounded or not row.exact)
    )
    spelled(draft, row.name, row.forms, [x], draft.dice.one_of(row.arguments), x.shape, dtype, span)


ROWS += [Row(row.name, partial(draw_unary, row), 0.7) for row in UNARY]
