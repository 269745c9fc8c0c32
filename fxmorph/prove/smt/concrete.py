"""Terms of the model evaluated on arrays of numbers: the model as a calculator.

For comparing the model with eager on many values (``conformance.py``).  Values of a floating-point
sort are float64 arrays that hold them exactly; every operation is computed to more precision than the
sort has and rounded once, which is right for +, *, / and the square root where 53 >= 2p + 2, and for
float64 itself natively.  Bit-vectors are uint64 arrays, Booleans bool arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import torch
import z3

from fxmorph.prove.smt.sorts import float_dtype, float_of

Array = Any


class NotConcrete(Exception):
    """A term holds an uninterpreted function whose values are not known."""


def _by_eager(function: Callable[..., torch.Tensor]) -> Callable[..., Array]:
    """An uninterpreted function is whatever eager makes of it: what is compared is what the model builds on it."""

    def call(dtype: torch.dtype, *arguments: Array) -> Array:
        tensors = [torch.from_numpy(np.atleast_1d(a)).to(dtype) for a in np.broadcast_arrays(*arguments)]
        return function(*tensors).double().numpy()

    return call


#: Uninterpreted functions of the model that are known functions of numbers, by the name they begin with.
KNOWN: dict[str, Callable[..., Array]] = {"uf_sqrt_": _by_eager(torch.sqrt)}


def evaluate(term: Any, values: Mapping[str, Array], length: int, zero: tuple[str, ...] = ()) -> Array:
    """``term`` for each element of the arrays of its variables (by name).

    Functions whose name begins with one of ``zero`` give zeros.  Raises :class:`NotConcrete`.
    """
    done: dict[int, Array] = {}
    stack = [(term, False)]
    with np.errstate(all="ignore"):
        while stack:
            node, ready = stack.pop()
            if node.get_id() in done:
                continue
            if not ready:
                stack.append((node, True))
                stack += [(c, False) for c in node.children()]
                continue
            done[node.get_id()] = _value(node, [done[c.get_id()] for c in node.children()], values, length, zero)
    out = done[term.get_id()]
    return np.broadcast_to(out, (length,)) if np.ndim(out) == 0 else out


def rounded(x: Array, ebits: int, sbits: int) -> Array:
    """float64 values to the nearest of a sort, ties to even."""
    if (ebits, sbits) == (11, 53):
        return x
    lowest, highest = 2 - 2 ** (ebits - 1), 2 ** (ebits - 1) - 1
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent - 1, lowest) - (sbits - 1)
    out = np.ldexp(np.rint(np.ldexp(x, -quantum)), quantum)
    out = np.where(np.abs(out) >= 2.0 ** (highest + 1), np.copysign(np.inf, x), out)
    return np.where(np.isfinite(x), out, x)


def _fma(a: Array, b: Array, c: Array, sort: Any) -> Array:
    """Rounded once, by exact rationals where all are finite."""
    out = []
    for x, y, z in zip(*(np.ravel(v) for v in np.broadcast_arrays(a, b, c)), strict=True):
        plain = z if np.isinf(z) and np.isfinite(x) and np.isfinite(y) else x * y + z
        if np.isfinite(x) and np.isfinite(y) and np.isfinite(z) and x and y:
            plain = _nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), sort.ebits(), sort.sbits())
        out.append(plain)
    return np.array(out, dtype=np.float64)


def _nearest(exact: Fraction, ebits: int, sbits: int) -> float:
    if not exact:
        return 0.0
    lowest, highest = 2 - 2 ** (ebits - 1), 2 ** (ebits - 1) - 1
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, lowest) - (sbits - 1))
    value = round(exact / quantum) * quantum
    if abs(value) >= Fraction(2) ** (highest + 1):
        return float("inf") if value > 0 else float("-inf")
    return float(value) if value else (-0.0 if exact < 0 else 0.0)


_FP_UNARY = {"fp.neg": np.negative, "fp.abs": np.abs}
_FP_TESTS: dict[str, Callable[..., Array]] = {
    "fp.isNaN": np.isnan,
    "fp.isInfinite": np.isinf,
    "fp.isZero": lambda x: x == 0,
    "fp.isNegative": lambda x: np.signbit(x) & ~np.isnan(x),
    "fp.isPositive": lambda x: ~np.signbit(x) & ~np.isnan(x),
    "fp.lt": np.less,
    "fp.leq": np.less_equal,
    "fp.gt": np.greater,
    "fp.geq": np.greater_equal,
    "fp.eq": np.equal,
}
_FP_ROUNDED: dict[str, Callable[..., Array]] = {
    "fp.add": np.add,
    "fp.mul": np.multiply,
    "fp.div": np.divide,
    "fp.sqrt": np.sqrt,
}
_INTEGRAL = {"RTZ": np.trunc, "RTN": np.floor, "RTP": np.ceil, "RNE": np.rint}
_MODES = {
    z3.Z3_OP_FPA_RM_TOWARD_ZERO: "RTZ",
    z3.Z3_OP_FPA_RM_TOWARD_NEGATIVE: "RTN",
    z3.Z3_OP_FPA_RM_TOWARD_POSITIVE: "RTP",
    z3.Z3_OP_FPA_RM_NEAREST_TIES_TO_EVEN: "RNE",
}


def _value(node: Any, inner: list[Array], values: Mapping[str, Array], length: int, zero: tuple[str, ...]) -> Array:
    if isinstance(node, z3.FPNumRef):
        return np.float64(float_of(node))
    if isinstance(node, z3.BitVecNumRef):
        return np.uint64(node.as_long())
    decl = node.decl()
    name, kind = decl.name(), decl.kind()
    if kind in _MODES:
        return _MODES[kind]
    if kind == z3.Z3_OP_UNINTERPRETED:
        return _function(node, inner, values, length, zero)
    if name in _FP_UNARY:
        return _FP_UNARY[name](inner[0])
    if name in _FP_TESTS:
        return _FP_TESTS[name](*inner)
    if z3.is_fp(node) and kind != z3.Z3_OP_ITE:
        return _float(name, node, inner)
    if name in ("fp.to_sbv", "fp.to_ubv"):
        return _masked(np.nan_to_num(np.trunc(inner[1])).astype(np.int64), node.size())
    if z3.is_bv(node) and kind != z3.Z3_OP_ITE:
        return _vector(name, node, inner)
    return _core(name, kind, node, inner)


def _function(node: Any, inner: list[Array], values: Mapping[str, Array], length: int, zero: tuple[str, ...]) -> Array:
    name = node.decl().name()
    if name in values:
        return values[name]
    for prefix, known in KNOWN.items():
        if name.startswith(prefix):
            return known(float_dtype(node), *inner)
    if name.startswith(zero):
        return np.zeros(length, dtype=np.uint64 if z3.is_bv(node) else np.float64)
    raise NotConcrete(name)


def _float(name: str, node: Any, inner: list[Array]) -> Array:
    sort = node.sort()
    size = (sort.ebits(), sort.sbits())
    if name in _FP_ROUNDED:
        return rounded(_FP_ROUNDED[name](*inner[1:]), *size)
    if name == "fp.fma":
        return _fma(inner[1], inner[2], inner[3], sort)
    if name == "fp.roundToIntegral":
        return _INTEGRAL[inner[0]](inner[1])
    if name in ("to_fp", "to_fp_unsigned") and node.num_args() == 2:
        source = node.arg(1)
        if z3.is_fp(source):
            return rounded(inner[1], *size)
        whole = _signed(inner[1], source.size()) if name == "to_fp" else inner[1]
        return np.array([_nearest(Fraction(int(v)), *size) for v in np.atleast_1d(whole)], dtype=np.float64)
    special = {"+zero": 0.0, "-zero": -0.0, "+oo": np.inf, "-oo": -np.inf, "NaN": np.nan}
    if name in special:
        return np.float64(special[name])
    raise NotConcrete(name)


def _mask(bits: int) -> Any:
    return np.uint64((1 << bits) - 1)


def _masked(x: Array, bits: int) -> Array:
    return np.asarray(x).astype(np.uint64) & _mask(bits)


def _signed(x: Array, bits: int) -> Array:
    return (np.asarray(x, dtype=np.uint64) << np.uint64(64 - bits)).astype(np.int64) >> np.int64(64 - bits)


def _truncated(a: Array, b: Array) -> Array:
    """Signed quotients toward zero; b = 0 and the one that overflows give anything and wrap."""
    safe = np.where((b == 0) | (b == -1), 1, b)
    floor = a // safe
    quotient = floor + ((a % safe != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == -1, -a, quotient)


def _vector(name: str, node: Any, inner: list[Array]) -> Array:
    bits = node.size()
    if name in ("extract", "zero_extend"):
        return _masked(inner[0] >> np.uint64(node.decl().params()[1]) if name == "extract" else inner[0], bits)
    if name == "sign_extend":
        return _masked(_signed(inner[0], node.arg(0).size()), bits)
    a, b = inner[0], inner[-1]
    s, t = _signed(a, bits), _signed(b, bits)
    inside = np.asarray(b) < bits
    amount = np.where(inside, b, 0).astype(np.uint64)
    nonzero = np.where(np.asarray(b) == 0, np.uint64(1), b)
    quotient = _truncated(s, t)
    rest = s - quotient * t
    made = {
        "bvadd": lambda: sum(inner[1:], inner[0]),
        "bvsub": lambda: a - b,
        "bvmul": lambda: _product(inner),
        "bvneg": lambda: ~a + np.uint64(1),
        "bvnot": lambda: ~a,
        "bvand": lambda: a & b,
        "bvor": lambda: a | b,
        "bvxor": lambda: a ^ b,
        "bvudiv": lambda: a // nonzero,
        "bvurem": lambda: a % nonzero,
        "bvsdiv": lambda: quotient,
        "bvsrem": lambda: rest,
        "bvsmod": lambda: np.where((rest != 0) & ((rest < 0) != (t < 0)), rest + t, rest),
        "bvshl": lambda: np.where(inside, a << amount, np.uint64(0)),
        "bvlshr": lambda: np.where(inside, a >> amount, np.uint64(0)),
        "bvashr": lambda: np.where(inside, s >> amount.astype(np.int64), s >> np.int64(63)),
    }
    if name not in made:
        raise NotConcrete(name)
    return _masked(made[name](), bits)


def _product(factors: list[Array]) -> Array:
    out = factors[0]
    for f in factors[1:]:
        out = out * f
    return out


_ORDER = {"bvslt": np.less, "bvsle": np.less_equal, "bvsgt": np.greater, "bvsge": np.greater_equal,
          "bvult": np.less, "bvule": np.less_equal, "bvugt": np.greater, "bvuge": np.greater_equal}  # fmt: skip


def _core(name: str, kind: int, node: Any, inner: list[Array]) -> Array:
    if name in _ORDER:
        bits = node.arg(0).size()
        return _ORDER[name](*[_signed(i, bits) if name[2] == "s" else i for i in inner])
    if z3.is_true(node) or z3.is_false(node):
        return np.bool_(z3.is_true(node))
    if kind == z3.Z3_OP_ITE:
        return np.where(*inner)
    if kind in (z3.Z3_OP_AND, z3.Z3_OP_OR, z3.Z3_OP_XOR):
        combine = {z3.Z3_OP_AND: np.logical_and, z3.Z3_OP_OR: np.logical_or, z3.Z3_OP_XOR: np.logical_xor}[kind]
        out = inner[0]
        for i in inner[1:]:
            out = combine(out, i)
        return out
    if kind == z3.Z3_OP_NOT:
        return np.logical_not(inner[0])
    if kind == z3.Z3_OP_IMPLIES:
        return np.logical_or(np.logical_not(inner[0]), inner[1])
    if kind in (z3.Z3_OP_EQ, z3.Z3_OP_IFF, z3.Z3_OP_DISTINCT):
        same = np.asarray(inner[0]) == np.asarray(inner[1])
        if z3.is_fp(node.arg(0)):
            same = (same & (np.signbit(inner[0]) == np.signbit(inner[1]))) | (np.isnan(inner[0]) & np.isnan(inner[1]))
        return ~same if kind == z3.Z3_OP_DISTINCT else same
    raise NotConcrete(name)
