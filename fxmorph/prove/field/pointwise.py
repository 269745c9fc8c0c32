"""Pointwise operators in field arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch

from fxmorph.prove.field.arithmetic import Arithmetic
from fxmorph.prove.field.elements import Val
from fxmorph.prove.field.meanings import Given, means
from fxmorph.prove.field.primes import P
from fxmorph.prove.shadow_memory import NotModelled

F = torch.nn.functional


@means("add sub rsub")
def _add(g: Given) -> Val:
    a, b = g.val("self"), g.val("other")
    if g.call.name == "rsub":
        a, b = b, a
    if "alpha" in g:
        scaled = g.number(g.get("alpha"))
        if g.call.name == "rsub":
            a, b = a, g.m.mul(b, scaled)
        else:
            b = g.m.mul(b, scaled)
    if g.call.name == "add" and g.boolean("self", "other"):
        return either(g.m, a, b)
    return g.m.add(a, b) if g.call.name == "add" else g.m.sub(a, b)


def either(m: Arithmetic, a: Val, b: Val) -> Val:
    """Whether one of two truth values is true."""
    return m.sub(m.add(a, b), m.mul(a, b))


@means("mul")
def _mul(g: Given) -> Val:
    return g.m.mul(g.val("self"), g.val("other"))


@means("div true_divide divide")
def _div(g: Given) -> Val:
    out = g.m.div(g.val("self"), g.val("other"))
    mode = g.get("rounding_mode")
    return out if mode is None else unary(g.m, mode, out)


@means("floor_divide")
def _floor_divide(g: Given) -> Val:
    return g.m.function("floor", g.m.div(g.val("self"), g.val("other")))


@means("remainder fmod")
def _remainder(g: Given) -> Val:
    a, b = g.val("self"), g.val("other")
    whole = unary(g.m, "floor" if g.call.name == "remainder" else "trunc", g.m.div(a, b))
    return g.m.sub(a, g.m.mul(b, whole))


@means("neg")
def _neg(g: Given) -> Val:
    return g.m.neg(g.val("self"))


@means("reciprocal")
def _reciprocal(g: Given) -> Val:
    return g.m.invert(g.val("self"))


@means("square")
def _square(g: Given) -> Val:
    return g.m.square(g.val("self"))


def raised(m: Arithmetic, base: Val, exponent: float) -> Val:
    """base ** exponent for a number."""
    twice = exponent * 2
    if twice == int(twice) and abs(twice) <= 64:
        whole = int(exponent // 1)
        if exponent == whole:
            return m.power(base, whole)
        return m.mul(m.power(base, whole), m.root(base)) if whole > 0 else _root_power(m, base, int(twice))
    return m.function(f"pow[{exponent}]", base)


def _root_power(m: Arithmetic, base: Val, odd: int) -> Val:
    return m.power(m.root(base), odd)


@means("pow")
def _pow(g: Given) -> Val:
    exponent, base = g.get("exponent"), g.get("self")
    if isinstance(exponent, torch.Tensor):
        if not isinstance(base, torch.Tensor) and base == math.e:
            return g.m.exp(g.val("exponent"))
        if (
            g.loader.is_known(g.call, exponent)
            and exponent.numel()
            and bool((exponent == exponent.reshape(-1)[0]).all())
        ):
            shape = torch.broadcast_shapes(getattr(base, "shape", ()), exponent.shape)
            return raised(g.m, g.val("self"), float(exponent.reshape(-1)[0])).map(lambda t: t.expand(shape))
        return g.m.function("pow", g.val("self"), g.val("exponent"))
    return raised(g.m, g.val("self"), float(exponent))


@means("sqrt")
def _sqrt(g: Given) -> Val:
    return g.m.root(g.val("self"))


@means("rsqrt")
def _rsqrt(g: Given) -> Val:
    return g.m.invert(g.m.root(g.val("self")))


@means("exp")
def _exp(g: Given) -> Val:
    return g.m.exp(g.val("self"))


@means("expm1")
def _expm1(g: Given) -> Val:
    return g.m.sub(g.m.exp(g.val("self")), g.m.fraction(1))


@means("log")
def _log(g: Given) -> Val:
    return g.m.log(g.val("self"))


@means("log1p")
def _log1p(g: Given) -> Val:
    return g.m.log(g.m.add(g.val("self"), g.m.fraction(1)))


def sigmoid(m: Arithmetic, x: Val) -> Val:
    return m.invert(m.add(m.fraction(1), m.exp(m.neg(x))))


def tanh(m: Arithmetic, x: Val) -> Val:
    """1 - 2 / (exp(2x) + 1)."""
    one = m.fraction(1)
    return m.sub(one, m.scale(m.invert(m.add(m.exp(m.scale(x, 2)), one)), 2))


@means("sigmoid")
def _sigmoid(g: Given) -> Val:
    return sigmoid(g.m, g.val("self"))


@means("tanh")
def _tanh(g: Given) -> Val:
    return tanh(g.m, g.val("self"))


@means("silu")
def _silu(g: Given) -> Val:
    x = g.val("self")
    return g.m.mul(x, sigmoid(g.m, x))


@means("logaddexp")
def _logaddexp(g: Given) -> Val:
    return g.m.log(g.m.add(g.m.exp(g.val("self")), g.m.exp(g.val("other"))))


@means("softplus")
def _softplus(g: Given) -> Val:
    """log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    beta, threshold, x = g.number(g.get("beta", 1)), g.get("threshold", 20), g.val("self")
    scaled = g.m.mul(x, beta)
    curve = g.m.div(g.m.log(g.m.add(g.m.exp(scaled), g.m.fraction(1))), beta)
    dtype = g.call.targets[0].dtype
    if math.exp(-threshold) <= threshold * torch.finfo(dtype).eps / 4:  # what is left out is below any rounding
        return curve
    g.m.compared = True
    return g.m.where(g.m.less(g.number(threshold), scaled), x, curve)


@means("log_sigmoid_forward")
def _log_sigmoid(g: Given) -> Any:
    return [g.m.neg(g.m.log(g.m.add(g.m.exp(g.m.neg(g.val("self"))), g.m.fraction(1)))), None]


@means("gelu")
def _gelu(g: Given) -> Val:
    x, m = g.val("self"), g.m
    half = m.scale(x, Fraction(1, 2))
    if g.get("approximate", "none") == "tanh":
        inner = m.add(x, m.mul(m.constant(0.044715), m.power(x, 3)))
        curve = tanh(m, m.mul(m.constant(math.sqrt(2 / math.pi)), inner))
    else:
        curve = unary(m, "erf", m.mul(x, m.root(m.fraction(Fraction(1, 2)))))
    return m.mul(half, m.add(m.fraction(1), curve))


_ODD = frozenset("sin tan asin atan sinh asinh atanh erf erfinv round".split())
_EVEN = frozenset("cos cosh".split())


@means(
    """sin cos tan asin acos atan sinh cosh asinh acosh atanh erf erfc erfinv exp2 log2 log10 floor ceil trunc round
    lgamma digamma frac i0 sinc special_erfcx special_log_ndtr special_ndtri mish hardswish"""
)
def _uninterpreted(g: Given) -> Val:
    if g.get("decimals"):
        raise NotModelled("round to decimals")
    x, name = g.val("self"), g.call.name
    return unary(g.m, name, x)


def unary(m: Arithmetic, name: str, x: Val) -> Val:
    if name == "erfc":
        return m.sub(m.fraction(1), unary(m, "erf", x))
    if name == "ceil":
        return m.neg(unary(m, "floor", m.neg(x)))
    if name == "trunc":  # towards zero
        return m.where(m.less(x, m.fraction(0)), unary(m, "ceil", x), unary(m, "floor", x))
    if name == "frac":
        return m.sub(x, unary(m, "trunc", x))
    if name in _ODD or name in _EVEN:
        # f(|x|) with |x| the representative below p/2, so that f(-x) = -f(x) or f(x).
        upper = x.p > P / 2
        flipped = Val(
            torch.where(upper, m.neg(x).p, x.p),
            None if x.q is None else torch.where(upper, m.neg(x).q, x.q),  # type: ignore[arg-type]
            x.degree, x.bits,
        )  # fmt: skip
        out = m.function(name, flipped)
        if name in _EVEN:
            return out
        zero = x.p == 0
        other = m.neg(out)
        return Val(
            torch.where(zero, 0.0, torch.where(upper, other.p, out.p)),
            torch.where(zero, 0.0, torch.where(upper, other.q, out.q)),  # type: ignore[arg-type]
            out.degree, out.bits,
        )  # fmt: skip
    return m.function(name, x)


@means("bitwise_left_shift __lshift__ __ilshift__")
def _left_shift(g: Given) -> Val:
    """Times 2 to the power of a known number."""
    by = g.get("other")
    if isinstance(by, torch.Tensor):
        if not g.loader.is_known(g.call, by) or bool(((by < 0) | (by > 62)).any()):
            raise NotModelled("a shift by an unknown number")
        factor = g.m.constants(torch.bitwise_left_shift(torch.ones_like(by, dtype=torch.int64), by))
    else:
        factor = g.m.fraction(2**by)
    return g.m.mul(g.val("self"), factor)


@means("atan2 hypot copysign nextafter xlogy igamma igammac bitwise_right_shift __rshift__")
def _uninterpreted_two(g: Given) -> Val:
    return g.m.function(g.call.name, g.val("self"), g.val("other"))


@means("addcmul addcdiv")
def _addc(g: Given) -> Val:
    a, b = g.val("tensor1"), g.val("tensor2")
    out = g.m.mul(a, b) if g.call.name == "addcmul" else g.m.div(a, b)
    if "value" in g:
        out = g.m.mul(out, g.number(g.get("value")))
    return g.m.add(g.val("self"), out)


@means("lerp")
def _lerp(g: Given) -> Val:
    a = g.val("self")
    return g.m.add(a, g.m.mul(g.val("weight"), g.m.sub(g.val("end"), a)))


@means("_to_copy to _conj_physical positive resolve_conj resolve_neg detach alias lift_fresh real convert_element_type")
def _cast(g: Given) -> Val:
    source, target = g.call.tensors[0], g.call.targets[0]
    if g.loader.is_known(g.call, source) and target.dtype.itemsize > source.dtype.itemsize:
        return g.m.constants(target)  # what it was rounded to, and not what from
    return converted(g, g.value(source), source.dtype, target.dtype)


@means("copy")
def _copy(g: Given) -> Val:
    source = g.native("src")
    shape = g.call.targets[0].shape
    out = converted(g, g.val("src"), source.dtype, g.call.targets[0].dtype)
    return out.map(lambda t: t.expand(shape))


def converted(g: Given, x: Val, source: torch.dtype, target: torch.dtype) -> Val:
    """Casts between floating dtypes are the identity: the model is of real numbers.

    What integers of a narrower dtype make of a number is known where the number fits only, and that is not known.
    """
    if target == torch.bool and source != torch.bool:
        g.m.compared = True
        return g.m.negation(g.m.equal(x, g.m.fraction(0)))
    if target.is_floating_point or target.is_complex:
        return x
    if source.is_floating_point:
        x = unary(g.m, "trunc", x)
    elif source == torch.bool or _holds(target, source):
        return x
    return g.m.function(f"wrapped[{target}]", x)


def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether one integer dtype has all numbers of another."""
    a, b = torch.iinfo(wide), torch.iinfo(narrow)
    return a.min <= b.min and b.max <= a.max


@means("fill")
def _fill(g: Given) -> Val:
    shape = g.call.targets[0].shape
    return g.val("value").map(lambda t: t.expand(shape))


@means("zero")
def _zero(g: Given) -> Val:
    shape = g.call.targets[0].shape
    return g.m.fraction(0).map(lambda t: t.expand(shape))


@means("full_like new_full full")
def _full(g: Given) -> Val:
    shape = g.call.targets[0].shape
    return g.val("fill_value").map(lambda t: t.expand(shape))
