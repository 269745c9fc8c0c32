"""What aten's operators on floating-point elements compute on CPU, in IEEE arithmetic.

The formulas are eager's, rounding by rounding (torch 2.13, ``aten/src/ATen/native/cpu``):
16-bit operators compute in float32 and round once; ``a + alpha * b``, ``addcmul`` and ``lerp`` are
fused multiply-adds; Python scalars are rounded to the tensor's dtype by sums, and to float32 only by
products and quotients.  ``conformance.py`` compares each with eager.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import z3

from fxmorph.prove.smt import ieee
from fxmorph.prove.smt.meaning import Context, Meaning, Operand, Unmodelled
from fxmorph.prove.smt.scalars import Op
from fxmorph.prove.smt.sorts import FLOATS, INTEGERS, SIXTEEN, Number, float_of, float_sort, float_value

_WIDE = torch.float32
Side = Operand | Number


def compute(dtype: torch.dtype) -> torch.dtype:
    """The dtype that kernels of ``dtype`` compute in."""
    return _WIDE if dtype in SIXTEEN else dtype


def element(value: Any, dtype: torch.dtype) -> Any:
    """An operand, or a Python scalar rounded to ``dtype``, as a term of ``dtype``."""
    if isinstance(value, Operand):
        return ieee.to(value.term, float_sort(dtype))
    if isinstance(value, (bool, int, float)):
        return float_value(float(value), dtype)
    raise Unmodelled(f"argument {value!r}")


def wide(value: Any, dtype: torch.dtype) -> Any:
    """An operand, or a Python scalar, in the dtype that kernels of ``dtype`` compute in."""
    return element(value, compute(dtype))


def _exact(value: Any, dtype: torch.dtype) -> bool:
    """Whether an operand or scalar is an element of ``dtype``."""
    if isinstance(value, Operand):
        return value.dtype == dtype
    scalar = float_value(float(value), compute(dtype))
    return float_of(float_value(float(value), dtype)) == float_of(scalar)


def narrow(term: Any, dtype: torch.dtype) -> Any:
    return ieee.to(term, float_sort(dtype))


_OPERATORS = {"add": ieee.add, "sub": ieee.sub, "mul": ieee.mul, "div": ieee.div}


def arithmetic(ctx: Context, operator: str, a: Side, b: Side, dtype: torch.dtype) -> Any:
    """One rounded operation of elements of ``dtype``.

    At 16 bits it is one in float32 and a rounding.  Where that is the same as one rounding
    (p' >= 2p + 2: Figueroa, "When is double rounding innocuous?", SIGNUM 1995) the direct operator
    stands for it, which solvers close far sooner.
    """
    if operator in ("add", "sub"):
        a, b = (v if isinstance(v, Operand) else Operand(element(v, dtype), dtype) for v in (a, b))
    make = _OPERATORS[operator]
    if dtype not in SIXTEEN:
        return make(element(a, dtype), element(b, dtype))
    innocuous = dtype == torch.float16 or operator in ("add", "sub")
    if innocuous and _exact(a, dtype) and _exact(b, dtype):
        ctx.assumptions.add("double-rounding-lemma")
        return make(element(a, dtype), element(b, dtype))
    return narrow(make(wide(a, dtype), wide(b, dtype)), dtype)


def _mul(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return arithmetic(ctx, "mul", given["self"], given["other"], node.dtype)


def _add(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    alpha = given.get("alpha", 1)
    a, b, dtype = given["self"], given["other"], node.dtype
    alpha = -alpha if node.name == "sub" else alpha
    if abs(alpha) == 1:
        return arithmetic(ctx, "add" if alpha == 1 else "sub", a, b, dtype)
    a, b = (v if isinstance(v, Operand) else Operand(element(v, dtype), dtype) for v in (a, b))
    if dtype in SIXTEEN:
        raise Unmodelled("one rounding in vector loops, two in scalar ones")
    return narrow(ieee.fma(wide(b, dtype), wide(alpha, dtype), wide(a, dtype)), dtype)


def _div(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    mode, dtype = given.get("rounding_mode"), node.dtype
    if mode is None:
        return arithmetic(ctx, "div", given["self"], given["other"], dtype)
    if mode != "trunc":
        raise Unmodelled("floor division goes by fmod, which differs by lane for large quotients")
    if isinstance(given["other"], Operand):
        return z3.fpRoundToIntegral(z3.RTZ(), arithmetic(ctx, "div", given["self"], given["other"], dtype))
    a, b = wide(given["self"], dtype), wide(given["other"], dtype)
    return narrow(z3.fpRoundToIntegral(z3.RTZ(), ieee.div(a, b)), dtype)


# -- one operand ------------------------------------------------------------------


def _neg(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return ieee.negated(element(given["self"], node.dtype))


def _abs(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return ieee.absolute(element(given["self"], node.dtype))


def _rounding(mode: z3.FPRMRef) -> Meaning:
    def meaning(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
        if given.get("decimals"):
            raise Unmodelled("decimals")
        return z3.fpRoundToIntegral(mode, element(given["self"], node.dtype))

    return meaning


def _sqrt(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    """Correctly rounded at 16 bits only: otherwise it is MKL's, which is within one unit in the last place."""
    if node.dtype not in SIXTEEN:
        return ctx.function("sqrt", node.dtype, element(given["self"], node.dtype))
    return narrow(ieee.sqrt(wide(given["self"], node.dtype)), node.dtype)


def _rsqrt(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    if node.dtype in SIXTEEN:
        raise Unmodelled("one rounding in vector loops, two in scalar ones")
    x = element(given["self"], node.dtype)
    return ieee.div(z3.FPVal(1.0, x.sort()), ieee.sqrt(x))


def _reciprocal(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return arithmetic(ctx, "div", 1.0, given["self"], node.dtype)


def _square(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return arithmetic(ctx, "mul", given["self"], given["self"], node.dtype)


def _pow(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    """Exponents that ``pow_tensor_scalar`` has kernels of their own for."""
    base, exponent, dtype = given["self"], given.get("exponent"), node.dtype
    if isinstance(exponent, Operand):
        exponent = None
    if not isinstance(base, Operand) or exponent is None:
        raise Unmodelled("pow of two tensors")
    x = Operand(element(base, dtype), dtype)
    if exponent == 0:
        return z3.FPVal(1.0, float_sort(dtype))
    if exponent == 1:
        return x.term
    if exponent == 2:
        return arithmetic(ctx, "mul", x, x, dtype)
    if exponent in (3, -2) and dtype == torch.float16:
        base = wide(x, dtype)
        square = ieee.mul(base, base)
        one = z3.FPVal(1.0, base.sort())
        return narrow(ieee.mul(square, base) if exponent == 3 else ieee.div(one, square), dtype)
    if exponent == 3:
        return arithmetic(ctx, "mul", Operand(arithmetic(ctx, "mul", x, x, dtype), dtype), x, dtype)
    if exponent == -1:
        return arithmetic(ctx, "div", 1.0, x, dtype)
    if exponent == -2:
        return arithmetic(ctx, "div", 1.0, Operand(arithmetic(ctx, "mul", x, x, dtype), dtype), dtype)
    # At fp16, pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf, as C has it.
    if exponent in (0.5, -0.5) and dtype != torch.float16:
        return (_sqrt if exponent > 0 else _rsqrt)(ctx, node, [x], {"self": x})
    raise Unmodelled(f"pow {exponent}")


def _sign(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    zero, one = ieee.zero(x.sort()), z3.FPVal(1.0, x.sort())
    return z3.If(z3.fpGT(x, zero), one, z3.If(z3.fpLT(x, zero), z3.FPVal(-1.0, x.sort()), zero))


def _relu(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    zero = ieee.zero(x.sort())
    return z3.If(z3.fpLT(x, zero), zero, x)


def _bounded(ctx: Context, x: Any, low: Any, high: Any, dtype: torch.dtype) -> Any:
    """``min(max(x, low), high)``: NaN of any comes through; bounds that are tensors tie as maxima do."""
    if isinstance(low, Operand) or isinstance(high, Operand):
        x = x if low is None else _extremum(ctx, x, element(low, dtype), largest=True)
        return x if high is None else _extremum(ctx, x, element(high, dtype), largest=False)
    if any(v is not None and math.isnan(v) for v in (low, high)):
        raise Unmodelled("a NaN bound")
    if low is not None:
        bound = element(low, dtype)
        x = z3.If(z3.fpLT(x, bound), bound, x)
    if high is not None:
        bound = element(high, dtype)
        x = z3.If(z3.fpGT(x, bound), bound, x)
    return x


def _clamp(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    low, high = given.get("min"), given.get("max")
    if node.name == "hardtanh":
        low, high = given.get("min_val", -1.0), given.get("max_val", 1.0)
    elif node.name == "relu6":
        low, high = 0.0, 6.0
    return _bounded(ctx, element(given["self"], node.dtype), low, high, node.dtype)


def _threshold(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    reached = z3.fpLEQ(wide(given["self"], node.dtype), wide(given["threshold"], node.dtype))
    return z3.If(reached, element(given["value"], node.dtype), x)


def _threshold_backward(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    grad, x = element(given["grad_output"], node.dtype), element(given["self"], node.dtype)
    reached = z3.fpLEQ(wide(given["self"], node.dtype), wide(given["threshold"], node.dtype))
    return z3.If(reached, ieee.zero(x.sort()), grad)


def _leaky_relu(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    slope = given.get("negative_slope", 0.01)
    scaled = arithmetic(ctx, "mul", given["self"], slope, node.dtype)
    return z3.If(z3.fpGT(x, ieee.zero(x.sort())), x, scaled)


def _nan_to_num(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x, limits = element(given["self"], node.dtype), torch.finfo(node.dtype)

    def or_default(key: str, default: float) -> Any:
        return element(default if given.get(key) is None else given[key], node.dtype)

    positive = z3.If(z3.fpIsPositive(x), or_default("posinf", limits.max), or_default("neginf", limits.min))
    return z3.If(z3.fpIsNaN(x), or_default("nan", 0.0), z3.If(z3.fpIsInf(x), positive, x))


def _heaviside(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x, v = element(given["self"], node.dtype), element(given["values"], node.dtype)
    zero, one = ieee.zero(x.sort()), z3.FPVal(1.0, x.sort())
    return z3.If(z3.fpIsZero(x), v, z3.If(z3.fpGT(x, zero), one, zero))


def _copysign(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x, s = element(given["self"], node.dtype), element(given["other"], node.dtype)
    size = ieee.absolute(x)
    return z3.If(_negative(ctx, s), ieee.negated(size), size)


def _negative(ctx: Context, x: Any) -> Any:
    """The sign bit, which SMT-LIB's one NaN has not."""
    if float_of(x) is not None and not math.isnan(float_of(x) or 0.0):
        return z3.fpIsNegative(x)
    return z3.If(z3.fpIsNaN(x), ctx.choice("nan-payload-ignored"), z3.fpIsNegative(x))


def _signbit(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return _negative(ctx, operands[0].term)


# -- two or three operands --------------------------------------------------------


def _extremum(ctx: Context, a: Any, b: Any, largest: bool) -> Any:
    """Maximum or minimum with NaN; eager's choice between -0.0 and 0.0 depends on the lane."""
    first = z3.fpGT(a, b) if largest else z3.fpLT(a, b)
    tied = a if a.eq(b) else z3.If(z3.And(z3.fpIsZero(a), ctx.choice("max-tie-free-choice")), a, b)
    other = z3.If(z3.fpEQ(a, b), tied, z3.If(first, a, b))
    return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, other))


def _maximum(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    return _extremum(ctx, a, b, node.name == "maximum")


def _fmax(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    known = _extremum(ctx, a, b, node.name == "fmax")
    return z3.If(z3.fpIsNaN(a), b, z3.If(z3.fpIsNaN(b), a, known))


def _row_extremum(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    out = operands[0].term
    for o in operands[1:]:
        out = _extremum(ctx, out, o.term, node.name == "amax")
    return out


def _addcmul(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b, c = (wide(given[k], node.dtype) for k in ("self", "tensor1", "tensor2"))
    value = wide(given.get("value", 1), node.dtype)
    return narrow(ieee.fma(ieee.mul(value, b), c, a), node.dtype)


def _addcdiv(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b, c = (wide(given[k], node.dtype) for k in ("self", "tensor1", "tensor2"))
    value = wide(given.get("value", 1), node.dtype)
    return narrow(ieee.add(a, ieee.div(ieee.mul(value, b), c)), node.dtype)


def _lerp(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    """``lerp_vec``: from whichever end is nearer, so that both ends are exact."""
    a, b, w = (wide(given[k], node.dtype) for k in ("self", "end", "weight"))
    step = ieee.sub(b, a)
    near = z3.fpLT(ieee.absolute(w), z3.FPVal(0.5, w.sort()))
    weight = z3.If(near, w, ieee.sub(w, z3.FPVal(1.0, w.sort())))
    out = narrow(z3.fpFMA(ieee.NEAREST, weight, step, z3.If(near, a, b)), node.dtype)
    if not isinstance(given["weight"], Operand):
        return out
    # With a tensor of weights, scalar loops give another sign to zeros than vector loops do.
    signed = z3.If(ctx.choice("zero-sign-free-choice"), z3.fpMinusZero(out.sort()), ieee.zero(out.sort()))
    return z3.If(z3.fpIsZero(out), signed, out)


_COMPARED = {"lt": z3.fpLT, "le": z3.fpLEQ, "gt": z3.fpGT, "ge": z3.fpGEQ, "eq": z3.fpEQ, "ne": z3.fpNEQ}


def _compare(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    dtype = operands[0].dtype
    a, b = element(given["self"], dtype), element(given["other"], dtype)
    if node.name in ("gt", "ge"):
        return (z3.fpLT if node.name == "gt" else z3.fpLEQ)(b, a)
    return _COMPARED[node.name](a, b)


def _test(of: Any) -> Meaning:
    def meaning(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
        return of(operands[0].term)

    return meaning


#: Meanings by operator, for operands that are floating point.
MEANINGS: dict[str, Meaning] = {
    "add": _add, "sub": _add, "mul": _mul, "multiply": _mul, "div": _div, "true_divide": _div,
    "neg": _neg, "negative": _neg, "abs": _abs, "absolute": _abs, "positive": lambda c, n, o, g: o[0].term,
    "floor": _rounding(z3.RTN()), "ceil": _rounding(z3.RTP()), "trunc": _rounding(z3.RTZ()), "fix": _rounding(z3.RTZ()),
    "round": _rounding(z3.RNE()), "sqrt": _sqrt, "rsqrt": _rsqrt, "reciprocal": _reciprocal, "square": _square,
    "pow": _pow, "sign": _sign, "sgn": _sign, "relu": _relu,
    "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp, "clip": _clamp, "hardtanh": _clamp, "relu6": _clamp,
    "threshold": _threshold, "threshold_backward": _threshold_backward, "leaky_relu": _leaky_relu,
    "nan_to_num": _nan_to_num, "heaviside": _heaviside, "copysign": _copysign, "signbit": _signbit,
    "maximum": _maximum, "minimum": _maximum, "fmax": _fmax, "fmin": _fmax,
    "amax": _row_extremum, "amin": _row_extremum,
    "addcmul": _addcmul, "addcdiv": _addcdiv, "lerp": _lerp,
    "lt": _compare, "le": _compare, "gt": _compare, "ge": _compare, "eq": _compare, "ne": _compare,
    "isnan": _test(z3.fpIsNaN), "isinf": _test(z3.fpIsInf),
    "isfinite": _test(lambda x: z3.Not(z3.Or(z3.fpIsNaN(x), z3.fpIsInf(x)))),
    "isposinf": _test(lambda x: z3.And(z3.fpIsInf(x), z3.fpIsPositive(x))),
    "isneginf": _test(lambda x: z3.And(z3.fpIsInf(x), z3.fpIsNegative(x))),
}  # fmt: skip


def cast(ctx: Context, x: Operand, dtype: torch.dtype) -> Any:
    """From a float to another dtype.  Float64 to 16 bits rounds to float32 on the way, as eager does."""
    if dtype == torch.bool:
        return z3.Not(z3.fpIsZero(x.term))
    if dtype in FLOATS:
        term = x.term
        if dtype in SIXTEEN and x.dtype == torch.float64:
            term = narrow(term, _WIDE)
        return narrow(term, dtype)
    return _to_integer(ctx, x, dtype)


def _exactly_from(term: Any, dtype: torch.dtype) -> Any:
    """The integer that a float was converted from without rounding, where all such fit ``dtype``."""
    unsigned = z3.is_app_of(term, z3.Z3_OP_FPA_TO_FP_UNSIGNED)
    if not (unsigned or z3.is_app_of(term, z3.Z3_OP_FPA_TO_FP)) or not z3.is_bv(term.arg(term.num_args() - 1)):
        return None
    source = term.arg(term.num_args() - 1)
    if term.num_args() != 2 or source.size() > term.sort().sbits():
        return None
    bits, more = INTEGERS[dtype], INTEGERS[dtype] - source.size()
    into_unsigned = dtype == torch.uint8
    fits = more > 0 or (more == 0 and into_unsigned) if unsigned else more >= 0 and not into_unsigned
    if not fits or bits == source.size():
        return source if fits else None
    return z3.ZeroExt(more, source) if unsigned else z3.SignExt(more, source)


def _to_integer(ctx: Context, x: Operand, dtype: torch.dtype) -> Any:
    """Truncation; what is out of range is the machine's business."""
    back = _exactly_from(x.term, dtype)
    if back is not None:
        return back
    bits = INTEGERS[dtype]
    signed = dtype != torch.uint8
    sort = z3.BitVecSort(bits)
    exact = (z3.fpToSBV if signed else z3.fpToUBV)(z3.RTZ(), x.term, sort)
    # Truncated values within [-2**(bits-1), 2**(bits-1)) or [0, 2**bits); bounds are powers of two.
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    whole = z3.fpRoundToIntegral(z3.RTZ(), x.term)
    inside = [z3.Not(z3.Or(z3.fpIsNaN(x.term), z3.fpIsInf(x.term)))]
    inside.append(z3.fpGEQ(whole, float_value(low, x.dtype)))
    if high <= torch.finfo(x.dtype).max:
        inside.append(z3.fpLT(whole, float_value(high, x.dtype)))
    within = z3.And(*inside)
    ctx.ranges.append(within)
    other = ctx.function("out_of_range", dtype, x.term, assumption="f2i_in_range")
    return z3.If(within, exact, other)
