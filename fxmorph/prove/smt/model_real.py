"""What aten's operators mean over the real numbers, where nothing is rounded and every value is finite.

Casts between floats are identities.  Denominators are not zero and arguments of square roots not
negative, as assumptions.  The exponential and the logarithm are uninterpreted functions with the
instances of their laws for the terms at hand.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from typing import Any

import torch
import z3

from fxmorph.prove.smt.meaning import Context, Meaning, Operand, Unmodelled
from fxmorph.prove.smt.scalars import Const, Op, Var
from fxmorph.prove.smt.sorts import FLOATS, real_value

ZERO, ONE = z3.RealVal(0), z3.RealVal(1)
DENOMINATOR, NONNEGATIVE, POSITIVE = "denom!=0", "root-argument>=0", "log_of_positive"

#: Exponentials of more arguments than this are not related by exp(a + b).
MAX_EXPONENTIALS = 10


def element(value: Any) -> Any:
    """An operand or a finite Python scalar as a real."""
    if isinstance(value, Operand):
        return from_other(value)
    if isinstance(value, (bool, int, float, Fraction)) and math.isfinite(value):
        return real_value(value)
    raise Unmodelled(f"{value!r} is not a real number")


def from_other(x: Operand) -> Any:
    if x.dtype in FLOATS:
        return x.term
    if x.dtype == torch.bool:
        return z3.If(x.term, ONE, ZERO)
    return z3.ToReal(z3.BV2Int(x.term, is_signed=x.dtype != torch.uint8))


def cast(ctx: Context, x: Operand, dtype: torch.dtype) -> Any:
    if dtype in FLOATS:
        return from_other(x)
    if dtype == torch.bool:
        return x.term != 0
    return ctx.function("real_to_integer", dtype, x.term)


def quotient(ctx: Context, a: Any, b: Any) -> Any:
    ctx.require(DENOMINATOR, b != 0)
    return a / b


def root(ctx: Context, x: Any) -> Any:
    """The square root, by what it is: r >= 0 and r * r = x."""
    ctx.require(NONNEGATIVE, x >= 0)
    r = ctx.function("sqrt", torch.float64, x, assumption=NONNEGATIVE)
    ctx.fact(z3.Implies(x >= 0, z3.And(r >= 0, r * r == x)))
    return r


def exponential(ctx: Context, x: Any) -> Any:
    x = z3.simplify(x, som=True)
    seen = ctx.applied.setdefault("exp", [])
    for argument, value in seen:
        if argument.eq(x):
            return value
    e = ctx.function("exp", torch.float64, x)
    ctx.fact(e > 0)
    if z3.is_rational_value(x) and x.as_fraction() == 0:
        ctx.fact(e == 1)
    # exp(a) exp(b) = exp(a + b), for the sums that are there.
    others = [*seen, (x, e)] if len(seen) < MAX_EXPONENTIALS else []
    for a, value in others:
        for b, other in others:
            total = z3.simplify(a + b, som=True)
            for c, made in others:
                if total.eq(c) and (a.eq(x) or b.eq(x) or c.eq(x)):
                    ctx.fact(value * other == made)
        if z3.simplify(a + x, som=True).eq(ZERO):
            ctx.fact(value * e == 1)
    for inner, logarithm_ in ctx.applied.get("log", []):
        if logarithm_.eq(x):
            ctx.fact(e == inner)
    seen.append((x, e))
    return e


def logarithm(ctx: Context, x: Any) -> Any:
    ctx.require(POSITIVE, x > 0)
    seen = ctx.applied.setdefault("log", [])
    for argument, value in seen:
        if argument.eq(x):
            return value
    out = ctx.function("log", torch.float64, x)
    for argument, e in ctx.applied.get("exp", []):
        if e.eq(x):
            ctx.fact(out == argument)
    seen.append((x, out))
    return out


def larger(a: Any, b: Any, largest: bool) -> Any:
    return z3.If(a >= b if largest else a <= b, a, b)


def sigmoid(ctx: Context, x: Any) -> Any:
    return ONE / (ONE + exponential(ctx, -x))


def _unary(of: Any) -> Meaning:
    return lambda ctx, node, operands, given: of(ctx, element(given["self"]))


def _binary(of: Any) -> Meaning:
    return lambda ctx, node, operands, given: of(ctx, element(given["self"]), element(given["other"]))


def _add(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"]), element(given["other"]) * element(given.get("alpha", 1))
    return a + b if node.name == "add" else a - b


def _div(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    q = quotient(ctx, element(given["self"]), element(given["other"]))
    mode = "floor" if node.name == "floor_divide" else given.get("rounding_mode")
    if mode is None:
        return q
    return z3.ToReal(z3.ToInt(q)) if mode == "floor" else truncated(q)


def truncated(x: Any) -> Any:
    return z3.If(x >= 0, z3.ToReal(z3.ToInt(x)), -z3.ToReal(z3.ToInt(-x)))


def _remainder(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"]), element(given["other"])
    q = quotient(ctx, a, b)
    return a - b * (truncated(q) if node.name == "fmod" else z3.ToReal(z3.ToInt(q)))


def _pow(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    exponent = given.get("exponent")
    if isinstance(exponent, Operand) or exponent is None or not isinstance(given["self"], Operand):
        raise Unmodelled("pow of two tensors")
    x = element(given["self"])
    if float(exponent).is_integer() and abs(exponent) <= 8:
        power = reduce(lambda a, b: a * b, [x] * abs(int(exponent)), ONE)
        return power if exponent >= 0 else quotient(ctx, ONE, power)
    if abs(exponent) == 0.5:
        return root(ctx, x) if exponent > 0 else quotient(ctx, ONE, root(ctx, x))
    raise Unmodelled(f"pow {exponent}")


def _clamp(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    low, high = given.get("min"), given.get("max")
    if node.name == "hardtanh":
        low, high = given.get("min_val", -1), given.get("max_val", 1)
    elif node.name == "relu6":
        low, high = 0, 6
    elif node.name == "relu":
        low = 0
    out = element(given["self"])
    if low is not None and low != -math.inf:
        out = larger(out, element(low), True)
    return out if high is None or high == math.inf else larger(out, element(high), False)


def _threshold(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x, bound = element(given["self"]), element(given["threshold"])
    if node.name == "threshold_backward":
        return z3.If(x <= bound, ZERO, element(given["grad_output"]))
    return z3.If(x <= bound, element(given["value"]), x)


def _leaky_relu(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"])
    return z3.If(x > 0, x, x * element(given.get("negative_slope", 0.01)))


def _elu(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"])
    if any(given.get(k, 1) != 1 for k in ("scale", "input_scale")):
        raise Unmodelled("scaled elu")
    return z3.If(x > 0, x, element(given.get("alpha", 1)) * (exponential(ctx, x) - ONE))


def _addcmul(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b, c = (element(given[k]) for k in ("self", "tensor1", "tensor2"))
    value = element(given.get("value", 1))
    return a + value * b * c if node.name == "addcmul" else a + quotient(ctx, value * b, c)


def _lerp(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b, w = (element(given[k]) for k in ("self", "end", "weight"))
    return a + w * (b - a)


def _heaviside(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"])
    return z3.If(x == 0, element(given["values"]), z3.If(x < 0, ZERO, ONE))


def _compare(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"]), element(given["other"])
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[node.name]


def _row(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    terms = [element(o) for o in operands]
    if node.name == "dot":
        half = len(terms) // 2
        terms = [a * b for a, b in zip(terms[:half], terms[half:], strict=True)]
    if node.name in ("amax", "amin"):
        return reduce(lambda a, b: larger(a, b, node.name == "amax"), terms)
    if node.name == "prod":
        return reduce(lambda a, b: a * b, terms)
    total = z3.Sum(*terms) if len(terms) > 1 else terms[0]
    return total / real_value(len(terms)) if node.name == "mean" else total


def _sign_of(ctx: Context, x: Any) -> Any:
    return z3.If(x > 0, ONE, z3.If(x < 0, -ONE, ZERO))


def _only_given(ctx: Context, node: Op) -> None:
    """Raises where what was computed is asked about: of finite numbers that may be NaN and Inf, which no reals are."""
    asked = node.operands[0]
    if not isinstance(asked, Const | Var) or (isinstance(asked, Var) and asked.number not in ctx.inputs):
        raise Unmodelled(f"{node.name} of what was computed")
    ctx.assumptions.add("finite")


def _of_given(value: bool) -> Meaning:
    def meaning(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
        _only_given(ctx, node)
        return z3.BoolVal(value)

    return meaning


def _numbers_only(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    _only_given(ctx, node)
    return element(given["self"])


def _round(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    if given.get("decimals"):
        raise Unmodelled("decimals")
    x = element(given["self"])
    below = z3.ToInt(x)
    rest = x - z3.ToReal(below)
    up = z3.Or(rest > real_value(0.5), z3.And(rest == real_value(0.5), below % 2 == 1))
    return z3.ToReal(z3.If(up, below + 1, below))


_hardsix = lambda x: larger(larger(x + 3, ZERO, True), real_value(6), False)  # noqa: E731
_magnitude = lambda ctx, x: z3.If(x >= 0, x, -x)  # noqa: E731

#: Meanings by operator, for operators that take or give floating point.
MEANINGS: dict[str, Meaning] = {
    "add": _add, "sub": _add, "mul": _binary(lambda c, a, b: a * b), "multiply": _binary(lambda c, a, b: a * b),
    "div": _div, "true_divide": _div, "floor_divide": _div, "remainder": _remainder, "fmod": _remainder,
    "neg": _unary(lambda c, x: -x), "negative": _unary(lambda c, x: -x), "positive": _unary(lambda c, x: x),
    "abs": _unary(_magnitude), "absolute": _unary(_magnitude), "square": _unary(lambda c, x: x * x),
    "sqrt": _unary(root), "rsqrt": _unary(lambda c, x: quotient(c, ONE, root(c, x))),
    "reciprocal": _unary(lambda c, x: quotient(c, ONE, x)), "pow": _pow,
    "sign": _unary(_sign_of), "sgn": _unary(_sign_of), "nan_to_num": _numbers_only,
    "floor": _unary(lambda c, x: z3.ToReal(z3.ToInt(x))), "ceil": _unary(lambda c, x: -z3.ToReal(z3.ToInt(-x))),
    "trunc": _unary(lambda c, x: truncated(x)), "fix": _unary(lambda c, x: truncated(x)), "round": _round,
    "relu": _clamp, "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp, "clip": _clamp, "hardtanh": _clamp,
    "relu6": _clamp, "threshold": _threshold, "threshold_backward": _threshold, "leaky_relu": _leaky_relu,
    "elu": _elu, "exp": _unary(exponential), "log": _unary(logarithm),
    "expm1": _unary(lambda c, x: exponential(c, x) - ONE), "log1p": _unary(lambda c, x: logarithm(c, ONE + x)),
    "sigmoid": _unary(sigmoid), "silu": _unary(lambda c, x: x * sigmoid(c, x)),
    "tanh": _unary(lambda c, x: 2 * sigmoid(c, 2 * x) - ONE),
    "hardsigmoid": _unary(lambda c, x: _hardsix(x) / real_value(6)),
    "hardswish": _unary(lambda c, x: x * _hardsix(x) / real_value(6)),
    "maximum": _binary(lambda c, a, b: larger(a, b, True)), "minimum": _binary(lambda c, a, b: larger(a, b, False)),
    "fmax": _binary(lambda c, a, b: larger(a, b, True)), "fmin": _binary(lambda c, a, b: larger(a, b, False)),
    "addcmul": _addcmul, "addcdiv": _addcmul, "lerp": _lerp, "heaviside": _heaviside,
    "copysign": _binary(lambda c, a, b: z3.If((b >= 0) == (a >= 0), a, -a)),
    "lt": _compare, "le": _compare, "gt": _compare, "ge": _compare, "eq": _compare, "ne": _compare,
    "sum": _row, "mean": _row, "prod": _row, "amax": _row, "amin": _row, "dot": _row,
    "isnan": _of_given(False), "isinf": _of_given(False), "isfinite": _of_given(True),
    "isposinf": _of_given(False), "isneginf": _of_given(False), "signbit": _unary(lambda c, x: x < 0),
}  # fmt: skip
