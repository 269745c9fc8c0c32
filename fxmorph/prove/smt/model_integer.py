"""What aten's operators on integers and Booleans compute: exact, in two's complement, wrapping.

Division by zero raises in eager, and the least number divided by -1 ends the process where it is
truncated, so that they do not happen are conditions of the meaning.  Shifts by the width or more, or
by a negative number, give 0 or the sign, which is what SMT-LIB's shifts by an unsigned amount give.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
import z3

from fxmorph.prove.smt.eager_scalars import TRAPPING
from fxmorph.prove.smt.meaning import Context, Meaning, Operand, Unmodelled
from fxmorph.prove.smt.scalars import Op
from fxmorph.prove.smt.sorts import FLOATS, INTEGERS, SIXTEEN, float_sort

DENOMINATOR, OVERFLOW = "int_denom!=0", "int_quotient_fits"


def element(value: Any, dtype: torch.dtype) -> Any:
    """An operand or Python scalar as a bit-vector of ``dtype``."""
    if isinstance(value, Operand):
        return convert(value.term, value.dtype, dtype)
    if isinstance(value, (bool, int)) or (isinstance(value, float) and value.is_integer()):
        return z3.BitVecVal(int(value), INTEGERS[dtype])
    raise Unmodelled(f"argument {value!r}")


def convert(term: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """An integer or Boolean as an integer or Boolean of another dtype: truncated or extended."""
    if old == new:
        return term
    if new == torch.bool:
        return term != 0
    bits = INTEGERS[new]
    if old == torch.bool:
        return z3.If(term, z3.BitVecVal(1, bits), z3.BitVecVal(0, bits))
    more = bits - INTEGERS[old]
    if more <= 0:
        return term if more == 0 else z3.Extract(bits - 1, 0, term)
    return z3.ZeroExt(more, term) if old == torch.uint8 else z3.SignExt(more, term)


def cast(ctx: Context, x: Operand, dtype: torch.dtype) -> Any:
    """From an integer or Boolean to any dtype; 16-bit floats are rounded to float32 on the way, as in eager."""
    if dtype not in FLOATS:
        return convert(x.term, x.dtype, dtype)
    exact = x.dtype == torch.bool or INTEGERS[x.dtype] <= FLOATS[dtype][1]
    through = torch.float32 if dtype in SIXTEEN and not exact else dtype
    bits = element(x, torch.uint8) if x.dtype == torch.bool else x.term
    signed = x.dtype not in (torch.uint8, torch.bool)
    make = z3.fpSignedToFP if signed else z3.fpUnsignedToFP
    term = make(z3.RNE(), bits, float_sort(through))
    return z3.fpToFP(z3.RNE(), term, float_sort(dtype)) if through != dtype else term


def _unsigned(dtype: torch.dtype) -> bool:
    return dtype == torch.uint8


def less(a: Any, b: Any, dtype: torch.dtype) -> Any:
    return z3.ULT(a, b) if _unsigned(dtype) else a < b


def _of(make: Any, first: str = "self", second: str = "other") -> Meaning:
    def meaning(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
        return make(element(given[first], node.dtype), element(given[second], node.dtype))

    return meaning


def _add(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    if given.get("alpha", 1) != 1:
        b = b * element(given["alpha"], node.dtype)
    return a + b if node.name == "add" else a - b


def _rest(a: Any, b: Any, dtype: torch.dtype) -> Any:
    """What truncated division leaves.  By its definition where solvers would never find that out."""
    if z3.is_bv_value(b):
        return z3.URem(a, b) if _unsigned(dtype) else z3.SRem(a, b)
    return a - (z3.UDiv(a, b) if _unsigned(dtype) else a / b) * b


def _quotient(a: Any, b: Any, dtype: torch.dtype, floor: bool) -> Any:
    if _unsigned(dtype):
        return z3.UDiv(a, b)
    quotient, rest = a / b, _rest(a, b, dtype)
    return z3.If(z3.And(rest != 0, (rest < 0) != (b < 0)), quotient - 1, quotient) if floor else quotient


def _nonzero(ctx: Context, b: Any) -> None:
    ctx.require(DENOMINATOR, b != 0)


def _div(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    mode = "floor" if node.name == "floor_divide" else given.get("rounding_mode")
    if mode not in ("floor", "trunc"):
        raise Unmodelled("true division of integers")
    _nonzero(ctx, b)
    if mode == "trunc" and node.dtype in TRAPPING:
        least = z3.BitVecVal(1 << (a.size() - 1), a.size())
        ctx.require(OVERFLOW, z3.Or(a != least, b != -1))
    return _quotient(a, b, node.dtype, mode == "floor")


def _remainder(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    _nonzero(ctx, b)
    rest = _rest(a, b, node.dtype)
    if node.name == "fmod" or _unsigned(node.dtype):
        return rest
    if z3.is_bv_value(b):
        return a % b
    return a - _quotient(a, b, node.dtype, floor=True) * b


def _shift(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    if node.name in ("bitwise_left_shift", "__lshift__"):
        return a << b
    return z3.LShR(a, b) if _unsigned(node.dtype) else a >> b


def _neg(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return -element(given["self"], node.dtype)


def _same(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return element(given["self"], node.dtype)


def _abs(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    return x if _unsigned(node.dtype) else z3.If(x < 0, -x, x)


def _not(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    return ~element(given["self"], node.dtype)


def _sign(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    bits = x.size()
    zero, one = z3.BitVecVal(0, bits), z3.BitVecVal(1, bits)
    return z3.If(x == 0, zero, z3.If(less(x, zero, node.dtype), z3.BitVecVal(-1, bits), one))


def _square(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = element(given["self"], node.dtype)
    return x * x


def _pow(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    base, exponent = given["self"], given.get("exponent")
    if not isinstance(base, Operand) or isinstance(exponent, (Operand, type(None))) or exponent not in range(9):
        raise Unmodelled(f"pow {exponent}")
    x = element(base, node.dtype)
    return reduce(lambda a, b: a * b, [x] * int(exponent), z3.BitVecVal(1, INTEGERS[node.dtype]))


def _larger(a: Any, b: Any, dtype: torch.dtype, largest: bool) -> Any:
    return z3.If(less(b, a, dtype) if largest else less(a, b, dtype), a, b)


def _maximum(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b = element(given["self"], node.dtype), element(given["other"], node.dtype)
    return _larger(a, b, node.dtype, node.name in ("maximum", "fmax"))


def _clamp(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    low, high = given.get("min"), given.get("max")
    if node.name == "hardtanh":
        low, high = given.get("min_val", -1), given.get("max_val", 1)
    elif node.name == "relu6":
        low, high = 0, 6
    elif node.name == "relu":
        low = 0
    out = element(given["self"], node.dtype)
    out = out if low is None else _larger(out, element(low, node.dtype), node.dtype, True)
    return out if high is None else _larger(out, element(high, node.dtype), node.dtype, False)


def _threshold(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x, bound = element(given["self"], node.dtype), element(given["threshold"], node.dtype)
    if node.name == "threshold_backward":
        kept, other = element(given["grad_output"], node.dtype), z3.BitVecVal(0, INTEGERS[node.dtype])
    else:
        kept, other = x, element(given["value"], node.dtype)
    return z3.If(less(bound, x, node.dtype), kept, other)


def _addcmul(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    a, b, c = (element(given[k], node.dtype) for k in ("self", "tensor1", "tensor2"))
    return a + element(given.get("value", 1), node.dtype) * b * c


def _heaviside(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x, v = element(given["self"], node.dtype), element(given["values"], node.dtype)
    zero, one = z3.BitVecVal(0, x.size()), z3.BitVecVal(1, x.size())
    return z3.If(x == 0, v, z3.If(less(x, zero, node.dtype), zero, one))


def _compare(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    dtype = operands[0].dtype
    a, b = element(given["self"], dtype), element(given["other"], dtype)
    if node.name in ("eq", "ne"):
        return a == b if node.name == "eq" else a != b
    if node.name in ("lt", "gt"):
        return less(a, b, dtype) if node.name == "lt" else less(b, a, dtype)
    return z3.Not(less(b, a, dtype) if node.name == "le" else less(a, b, dtype))


def _row(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    terms = [element(o, node.dtype) for o in operands]
    if node.name == "sum":
        return reduce(lambda a, b: a + b, terms)
    if node.name == "prod":
        return reduce(lambda a, b: a * b, terms)
    if node.name == "dot":
        half = len(terms) // 2
        return reduce(lambda a, b: a + b, [a * b for a, b in zip(terms[:half], terms[half:], strict=True)])
    return reduce(lambda a, b: _larger(a, b, node.dtype, node.name == "amax"), terms)


def _constant(value: bool) -> Meaning:
    return lambda ctx, node, operands, given: z3.BoolVal(value)


def _signbit(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    x = operands[0]
    return z3.BoolVal(False) if _unsigned(x.dtype) else x.term < 0


_AND, _OR, _XOR = _of(lambda a, b: a & b), _of(lambda a, b: a | b), _of(lambda a, b: a ^ b)

#: Meanings by operator, for operands that are integers.
MEANINGS: dict[str, Meaning] = {
    "add": _add, "sub": _add, "mul": _of(lambda a, b: a * b), "multiply": _of(lambda a, b: a * b),
    "div": _div, "floor_divide": _div, "remainder": _remainder, "fmod": _remainder,
    "bitwise_and": _AND, "bitwise_or": _OR, "bitwise_xor": _XOR, "__and__": _AND, "__or__": _OR, "__xor__": _XOR,
    "bitwise_not": _not, "bitwise_left_shift": _shift, "bitwise_right_shift": _shift,
    "__lshift__": _shift, "__rshift__": _shift, "neg": _neg, "negative": _neg, "abs": _abs, "absolute": _abs,
    "positive": _same, "floor": _same, "ceil": _same, "trunc": _same, "fix": _same, "round": _same,
    "nan_to_num": _same, "sign": _sign, "sgn": _sign, "square": _square, "pow": _pow,
    "maximum": _maximum, "minimum": _maximum, "fmax": _maximum, "fmin": _maximum,
    "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp, "clip": _clamp, "hardtanh": _clamp,
    "relu": _clamp, "relu6": _clamp,
    "threshold": _threshold, "threshold_backward": _threshold, "addcmul": _addcmul, "heaviside": _heaviside,
    "lt": _compare, "le": _compare, "gt": _compare, "ge": _compare, "eq": _compare, "ne": _compare,
    "sum": _row, "prod": _row, "dot": _row, "amax": _row, "amin": _row, "signbit": _signbit,
    "isnan": _constant(False), "isinf": _constant(False), "isfinite": _constant(True),
    "isposinf": _constant(False), "isneginf": _constant(False),
}  # fmt: skip


# -- Booleans ---------------------------------------------------------------------


def _truth(value: Any) -> Any:
    if isinstance(value, Operand):
        return value.term
    if isinstance(value, (bool, int)):
        return z3.BoolVal(bool(value))
    raise Unmodelled(f"argument {value!r}")


def _both(make: Any) -> Meaning:
    return lambda ctx, node, operands, given: make(_truth(given["self"]), _truth(given["other"]))


def _bool_row(ctx: Context, node: Op, operands: list[Operand], given: dict[str, Any]) -> Any:
    terms = [o.term for o in operands]
    return z3.Or(*terms) if node.name == "amax" else z3.And(*terms)


_B_AND, _B_OR, _B_XOR = _both(z3.And), _both(z3.Or), _both(z3.Xor)
_B_NOT: Meaning = lambda ctx, node, operands, given: z3.Not(_truth(given["self"]))  # noqa: E731
_B_SAME: Meaning = lambda ctx, node, operands, given: _truth(given["self"])  # noqa: E731

#: Meanings by operator, for operands that are Booleans and give Booleans.
BOOLEAN: dict[str, Meaning] = {
    "add": _B_OR, "mul": _B_AND, "maximum": _B_OR, "minimum": _B_AND, "fmax": _B_OR, "fmin": _B_AND,
    "bitwise_and": _B_AND, "bitwise_or": _B_OR, "bitwise_xor": _B_XOR, "__and__": _B_AND, "__or__": _B_OR,
    "__xor__": _B_XOR, "bitwise_not": _B_NOT, "abs": _B_SAME, "positive": _B_SAME, "sgn": _B_SAME, "sign": _B_SAME,
    "eq": _both(lambda a, b: a == b), "ne": _B_XOR,
    "lt": _both(lambda a, b: z3.And(z3.Not(a), b)), "gt": _both(lambda a, b: z3.And(a, z3.Not(b))),
    "le": _both(z3.Implies), "ge": _both(lambda a, b: z3.Implies(b, a)),
    "amax": _bool_row, "amin": _bool_row,
    "isnan": _constant(False), "isinf": _constant(False), "isfinite": _constant(True),
    "isposinf": _constant(False), "isneginf": _constant(False), "signbit": _constant(False),
}  # fmt: skip
