"""aten operators in field arithmetic.  ``MEANINGS`` maps a functional operator's name to what it computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import torch

from fxmorph.prove.field.arithmetic import FRESH, NAN, Arithmetic, Val
from fxmorph.prove.field.primes import P
from fxmorph.prove.shadow_memory import Call, NotModelled
from fxmorph.torchapi.dispatch import aten_packet

F = torch.nn.functional


class Loader(Protocol):
    """Where operators' operands come from (``identity_testing.py``)."""

    def load(self, call: Call, t: torch.Tensor) -> Val:
        """The elements of an argument."""

    def is_known(self, call: Call, t: torch.Tensor) -> bool:
        """Whether an argument's values are those of the native run."""


class Given:
    """The arguments of a call, and the arithmetic to use on them."""

    def __init__(self, call: Call, math_: Arithmetic, loader: Loader) -> None:
        self.call, self.m, self.loader = call, math_, loader

    def __contains__(self, name: str) -> bool:
        return self.call.arguments.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        value = self.call.arguments.get(name)
        return default if value is None else value

    def native(self, name: str) -> torch.Tensor:
        """A tensor argument as it was run: only its shape and dtype mean anything, unless it is known."""
        value = self.call.arguments[name]
        if not isinstance(value, torch.Tensor):
            raise NotModelled(f"{self.call.name} without tensor {name}")
        return value

    def value(self, value: Any) -> Val:
        return self.loader.load(self.call, value) if isinstance(value, torch.Tensor) else self.m.constant(value)

    def val(self, name: str, default: Any = None) -> Val:
        value = self.get(name, default)
        if value is None:
            raise NotModelled(f"{self.call.name} without {name}")
        return self.value(value)

    def maybe(self, name: str) -> Val | None:
        return self.val(name) if name in self else None

    def positions(self, name: str) -> torch.Tensor:
        """An index tensor, whose values must be known (or, with a total order, found)."""
        return self.places(self.native(name))

    def places(self, t: torch.Tensor) -> torch.Tensor:
        if self.loader.is_known(self.call, t):
            return t
        if self.m.mixed:
            raise NotModelled(f"{self.call.name} at unknown places")
        p = self.loader.load(self.call, t).p
        if bool((~(p < 2**18)).any()):
            raise NotModelled(f"{self.call.name} at unknown places")
        return p.to(t.dtype)

    def boolean(self, *names: str) -> bool:
        """Whether all of these arguments are truth values."""
        values = [self.get(n) for n in names]
        return all(v.dtype == torch.bool if isinstance(v, torch.Tensor) else isinstance(v, bool) for v in values)

    def dims(self, ndim: int, name: str = "dim") -> list[int]:
        """Dimensions reduced over, sorted; all where none are given."""
        value = self.get(name)
        if value is None or value == []:
            return list(range(ndim))
        return sorted({d % max(ndim, 1) for d in ([value] if isinstance(value, int) else value)}) if ndim else []


Meaning = Callable[[Given], Any]
MEANINGS: dict[str, Meaning] = {}


def means(names: str) -> Callable[[Meaning], Meaning]:
    def note(f: Meaning) -> Meaning:
        for name in names.split():
            MEANINGS[name] = f
        return f

    return note


# -- pointwise -----------------------------------------------------------------


@means("add sub rsub")
def _add(g: Given) -> Val:
    a, b = g.val("self"), g.val("other")
    if g.call.name == "rsub":
        a, b = b, a
    if "alpha" in g:
        scaled = g.m.constant(g.get("alpha"))
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
    """log(1 + exp(beta x)) / beta; that torch takes x beyond the threshold is rounding."""
    beta = g.m.constant(g.get("beta", 1))
    return g.m.div(g.m.log(g.m.add(g.m.exp(g.m.mul(g.val("self"), beta)), g.m.fraction(1))), beta)


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
        out = g.m.mul(out, g.m.constant(g.get("value")))
    return g.m.add(g.val("self"), out)


@means("lerp")
def _lerp(g: Given) -> Val:
    a = g.val("self")
    return g.m.add(a, g.m.mul(g.val("weight"), g.m.sub(g.val("end"), a)))


@means("_to_copy to _conj_physical positive resolve_conj resolve_neg detach alias lift_fresh real convert_element_type")
def _cast(g: Given) -> Val:
    source = g.call.tensors[0]
    target = g.call.targets[0].dtype
    return converted(g, g.value(source), source.dtype, target)


@means("copy")
def _copy(g: Given) -> Val:
    source = g.native("src")
    shape = g.call.targets[0].shape
    out = converted(g, g.val("src"), source.dtype, g.call.targets[0].dtype)
    return out.map(lambda t: t.expand(shape))


def converted(g: Given, x: Val, source: torch.dtype, target: torch.dtype) -> Val:
    """Casts between floating dtypes are the identity: the model is of real numbers."""
    if target == torch.bool and source != torch.bool:
        g.m.compared = True
        return g.m.negation(g.m.equal(x, g.m.fraction(0)))
    if source.is_floating_point and not target.is_floating_point:
        return unary(g.m, "trunc", x)
    return x


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


# -- order and choice ----------------------------------------------------------


@means("lt gt le ge eq ne")
def _compare(g: Given) -> Val:
    a, b, name = g.val("self"), g.val("other"), g.call.name
    g.m.compared = True
    if name in ("eq", "ne") and g.boolean("self", "other"):
        apart = g.m.sub(either(g.m, a, b), g.m.mul(a, b))
        return apart if name == "ne" else g.m.negation(apart)
    if name in ("eq", "ne"):
        same = g.m.equal(a, b)
        return same if name == "eq" else g.m.negation(same)
    if name in ("gt", "le"):
        a, b = b, a
    out = g.m.less(a, b)
    # a <= b is not b < a.
    return out if name in ("lt", "gt") else g.m.negation(out)


@means("logical_not")
def _not(g: Given) -> Val:
    x = g.val("self")
    g.m.compared = True
    return g.m.negation(x) if g.native("self").dtype == torch.bool else g.m.equal(x, g.m.fraction(0))


@means("bitwise_not")
def _bitwise_not(g: Given) -> Val:
    return g.m.sub(g.m.fraction(1 if g.native("self").dtype == torch.bool else -1), g.val("self"))


@means("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor")
def _logic(g: Given) -> Val:
    name, sides = g.call.name, []
    for key in ("self", "other"):
        boolean = g.boolean(key)
        if not boolean and name.startswith("bitwise"):
            return g.m.function(name, g.val("self"), g.val("other"))
        x = g.val(key)
        g.m.compared = g.m.compared or not boolean
        sides.append(x if boolean else g.m.negation(g.m.equal(x, g.m.fraction(0))))
    a, b = sides
    both = g.m.mul(a, b)
    if name.endswith("and"):
        return both
    return g.m.sub(g.m.add(a, b), both if name.endswith("_or") else g.m.scale(both, 2))


@means("where")
def _where(g: Given) -> Val:
    shape = g.call.targets[0].shape
    return g.m.where(g.val("condition"), g.val("self"), g.val("other")).map(lambda t: t.expand(shape))


@means("masked_fill")
def _masked_fill(g: Given) -> Val:
    return g.m.where(g.val("mask"), g.val("value"), g.val("self"))


@means("relu")
def _relu(g: Given) -> Val:
    x = g.val("self")
    return g.m.maximum(x, g.m.fraction(0))


@means("maximum fmax")
def _maximum(g: Given) -> Val:
    if g.boolean("self", "other"):
        return either(g.m, g.val("self"), g.val("other"))
    return g.m.maximum(g.val("self"), g.val("other"))


@means("minimum fmin")
def _minimum(g: Given) -> Val:
    if g.boolean("self", "other"):
        return g.m.mul(g.val("self"), g.val("other"))
    return g.m.minimum(g.val("self"), g.val("other"))


@means("clamp clamp_min clamp_max hardtanh relu6 clip")
def _clamp(g: Given) -> Val:
    x = g.val("self")
    names = ("min_val", "max_val") if g.call.name == "hardtanh" else ("min", "max")
    low = g.val(names[0], -1) if g.call.name == "hardtanh" else g.maybe(names[0])
    high = g.val(names[1], 1) if g.call.name == "hardtanh" else g.maybe(names[1])
    if low is not None:
        x = g.m.maximum(x, low)
    return x if high is None else g.m.minimum(x, high)


@means("leaky_relu")
def _leaky_relu(g: Given) -> Val:
    x = g.val("self")
    return g.m.where(g.m.less(g.m.fraction(0), x), x, g.m.mul(x, g.m.constant(g.get("negative_slope", 0.01))))


@means("threshold")
def _threshold(g: Given) -> Val:
    """value where x <= threshold, else x."""
    x = g.val("self")
    g.m.compared = True
    return g.m.where(g.m.less(g.val("threshold", 0), x), x, g.val("value", 0))


@means("elu")
def _elu(g: Given) -> Val:
    m, x = g.m, g.val("self")
    alpha, scale, inner = (m.constant(g.get(k, 1)) for k in ("alpha", "scale", "input_scale"))
    curve = m.mul(m.mul(alpha, scale), m.sub(m.exp(m.mul(x, inner)), m.fraction(1)))
    return m.where(m.less(m.fraction(0), x), m.mul(x, scale), curve)


@means("abs")
def _abs(g: Given) -> Val:
    return g.m.absolute(g.val("self"))


@means("sign sgn")
def _sign(g: Given) -> Val:
    m, x = g.m, g.val("self")
    zero = m.fraction(0)
    m.compared = True
    return m.sub(m.less(zero, x), m.less(x, zero))


@means("isnan isinf")
def _never(g: Given) -> Val:
    """Never, of reals."""
    g.m.assumptions.add("finite")
    return g.m.where(g.m.truth(torch.ones_like(g.native("self"), dtype=torch.bool)), g.m.fraction(0), g.m.fraction(0))


@means("isfinite")
def _always(g: Given) -> Val:
    g.m.assumptions.add("finite")
    return g.m.truth(torch.ones_like(g.native("self"), dtype=torch.bool))


@means("nan_to_num")
def _nan_to_num(g: Given) -> Val:
    g.m.assumptions.add("finite")
    return g.val("self")


# -- reductions ----------------------------------------------------------------


@means("sum mean")
def _sum(g: Given) -> Val:
    x = g.val("self")
    dims = g.dims(x.ndim)
    return (g.m.mean if g.call.name == "mean" else g.m.sum)(x, dims, g.get("keepdim", False))


@means("nansum nanmean")
def _nansum(g: Given) -> Val:
    g.m.assumptions.add("finite")
    x = g.val("self")
    return (g.m.mean if g.call.name == "nanmean" else g.m.sum)(x, g.dims(x.ndim), g.get("keepdim", False))


@means("prod")
def _prod(g: Given) -> Val:
    x = g.val("self")
    if "dim" not in g:
        return g.m.prod(x.map(lambda t: t.reshape(-1)), 0, False)
    return g.m.prod(x, g.get("dim") % max(x.ndim, 1), g.get("keepdim", False)) if x.ndim else x


@means("all any")
def _all(g: Given) -> Val:
    x = g.val("self")
    if not g.boolean("self"):
        g.m.compared = True
        x = g.m.negation(g.m.equal(x, g.m.fraction(0)))
    return _quantified(g, x, g.call.name == "any")


def _quantified(g: Given, x: Val, some: bool) -> Val:
    x = g.m.negation(x) if some else x
    keep = g.get("keepdim", False)
    for d in reversed(g.dims(x.ndim)):
        x = g.m.prod(x, d, keep)
    return g.m.negation(x) if some else x


def _moments(g: Given) -> tuple[Val, Val]:
    """(variance, mean)."""
    m, x = g.m, g.val("self")
    dims, keep = g.dims(x.ndim), g.get("keepdim", False)
    correction = g.call.arguments.get("correction")
    if correction is None:
        correction = 1 if g.get("unbiased", True) else 0
        # unbiased=False is not the default and so is there.
    center = m.mean(x, dims, True)
    deviation = m.square(m.sub(x, center))
    n = Fraction(x.size(dims)) - Fraction(correction)
    total = m.sum(deviation, dims, keep)
    if n == 0:
        raise NotModelled("a variance of too few elements")
    variance = m.scale(total, 1 / n)
    mean = center if keep or not x.ndim else center.map(lambda t: t.reshape(total.shape))
    return variance, mean


@means("var std var_mean std_mean")
def _var(g: Given) -> Any:
    variance, mean = _moments(g)
    if g.call.name.startswith("std"):
        variance = g.m.root(variance)
    return [variance, mean] if g.call.name.endswith("mean") else variance


@means("linalg_vector_norm norm")
def _norm(g: Given) -> Val:
    m, x = g.m, g.val("self")
    order = float(g.get("ord", g.get("p", 2)))
    dims, keep = g.dims(x.ndim), g.get("keepdim", False)
    if order == 2:
        return m.root(m.sum(m.square(x), dims, keep))
    if order == 1:
        return m.sum(m.absolute(x), dims, keep)
    if order == math.inf:
        return m.largest(m.absolute(x), dims, keep)
    if order == -math.inf:
        return m.neg(m.largest(m.neg(m.absolute(x)), dims, keep))
    return m.function(f"root[{order}]", m.sum(m.function(f"pow[{order}]", m.absolute(x)), dims, keep))


def exponentials(m: Arithmetic, x: Val, dim: int) -> tuple[Val, Val]:
    """exp(x) and its sum over a dimension, kept."""
    e = m.exp(x)
    return e, m.sum(e, [dim] if x.ndim else [], True)


@means("_softmax softmax _safe_softmax")
def _softmax(g: Given) -> Val:
    x = g.val("self")
    e, s = exponentials(g.m, x, g.get("dim") % max(x.ndim, 1))
    return g.m.div(e, s)


@means("_log_softmax log_softmax")
def _log_softmax(g: Given) -> Val:
    x = g.val("self")
    _, s = exponentials(g.m, x, g.get("dim") % max(x.ndim, 1))
    return g.m.sub(x, g.m.log(s))


@means("logsumexp")
def _logsumexp(g: Given) -> Val:
    x = g.val("self")
    return g.m.log(g.m.sum(g.m.exp(x), g.dims(x.ndim), g.get("keepdim", False)))


@means("amax amin")
def _amax(g: Given) -> Val:
    return _extreme(g, g.val("self"), g.call.name == "amin")


def _extreme(g: Given, x: Val, least: bool) -> Val:
    if g.boolean("self"):
        return _quantified(g, x, not least)
    dims, keep = g.dims(x.ndim), g.get("keepdim", False)
    return g.m.neg(g.m.largest(g.m.neg(x), dims, keep)) if least else g.m.largest(x, dims, keep)


@means("max min")
def _max(g: Given) -> Any:
    x, least = g.val("self"), g.call.name == "min"
    if "other" in g:
        return (g.m.minimum if least else g.m.maximum)(x, g.val("other"))
    if "dim" not in g:
        return _extreme(g, x, least)
    values = _extreme(g, x, least)
    return [values, _place(g, x, least) if not g.m.mixed else None]


def _place(g: Given, x: Val, least: bool) -> Val:
    """The index of the first extremum."""
    if not x.ndim:
        return g.m.fraction(0)
    keep = g.get("keepdim", False)
    g.m.compared = True
    x = g.m.neg(x) if least else x
    if "dim" in g:
        d = g.get("dim") % x.ndim
        at = g.m.highest(x.map(lambda t: t.movedim(d, -1))).movedim(-1, d)
        at = at if keep else at.squeeze(d)
        n = x.shape[d]
    else:
        at = g.m.highest(x.map(lambda t: t.reshape(-1))).reshape([1] * x.ndim if keep else [])
        n = x.p.numel()
    t = at.double()
    return Val(t, t, FRESH, x.bits + math.log2(max(n, 1)))


@means("argmax argmin")
def _argmax(g: Given) -> Val:
    return _place(g, g.val("self"), g.call.name == "argmin")


@means("sort topk")
def _sort(g: Given) -> Any:
    m, x = g.m, g.val("self")
    if not x.ndim:
        return [x, m.fraction(0)]
    d, n = g.get("dim", -1) % x.ndim, x.shape[g.get("dim", -1) % x.ndim]
    descending = g.get("descending", False) if g.call.name == "sort" else g.get("largest", True)
    if m.mixed and n <= 256:
        values = m.ordered(x, d)
        values = values.map(lambda t: t.flip(d)) if descending else values
        return [values if g.call.name == "sort" else values.map(lambda t: t.narrow(d, 0, g.get("k"))), None]
    if m.mixed:
        raise NotModelled(f"{g.call.name} of many")
    m.compared = True
    rank = m.rank(x)
    if bool(rank.isnan().any()):
        raise NotModelled("sorting what is undefined")
    at = rank.sort(dim=d, descending=descending, stable=True).indices
    if g.call.name == "topk":
        at = at.narrow(d, 0, g.get("k"))
    m.assumptions.add("comparison-as-predicate")
    values = x.map(lambda t: t.gather(d, at))
    m._hide(x)
    values.bits += math.lgamma(n + 1) / math.log(2)
    t = at.double()
    return [values, Val(t, t, FRESH, values.bits)]


@means("cumsum")
def _cumsum(g: Given) -> Val:
    x = g.val("self")
    return g.m.linear(lambda t: t.cumsum(g.get("dim")), x, max(x.shape, default=1))


@means("cumprod")
def _cumprod(g: Given) -> Val:
    x = g.val("self")
    if not x.ndim:
        return x
    d = g.get("dim") % x.ndim
    rows = [x.map(lambda t, i=i: t.select(d, i)) for i in range(x.shape[d])]  # type: ignore[misc]
    for i in range(1, len(rows)):
        rows[i] = g.m.mul(rows[i - 1], rows[i])
    if not rows:
        return x
    q = None if x.q is None else torch.stack([r.q for r in rows], d)  # type: ignore[misc]
    return Val(torch.stack([r.p for r in rows], d), q, rows[-1].degree, rows[-1].bits)


# -- products ------------------------------------------------------------------


@means("mm bmm mv dot vdot matmul")
def _product(g: Given) -> Val:
    a = g.val("self")
    other = next(k for k in ("mat2", "vec", "tensor", "other") if k in g)
    return g.m.matmul(a, g.val(other))


def _combined(g: Given, added: Val, product: Val) -> Val:
    if "alpha" in g:
        product = g.m.mul(product, g.m.constant(g.get("alpha")))
    if "beta" in g.call.arguments:
        if g.call.arguments["beta"] == 0:
            shape = g.call.targets[0].shape
            return product.map(lambda t: t.expand(shape))
        added = g.m.mul(added, g.m.constant(g.get("beta")))
    return g.m.add(added, product)


@means("addmm baddbmm addmv _addmm_activation")
def _addmm(g: Given) -> Val:
    if g.call.name == "_addmm_activation":
        raise NotModelled(g.call.name)
    left, right = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}[g.call.name]
    return _combined(g, g.val("self"), g.m.matmul(g.val(left), g.val(right)))


@means("addbmm")
def _addbmm(g: Given) -> Val:
    return _combined(g, g.val("self"), g.m.sum(g.m.matmul(g.val("batch1"), g.val("batch2")), [0]))


@means("addr")
def _addr(g: Given) -> Val:
    a, b = g.val("vec1").map(lambda t: t.unsqueeze(1)), g.val("vec2")
    return _combined(g, g.val("self"), g.m.mul(a, b))


@means("linear")
def _linear(g: Given) -> Val:
    out = g.m.matmul(g.val("input"), g.val("weight").map(lambda t: t.mT))
    bias = g.maybe("bias")
    return out if bias is None else g.m.add(out, bias)


# -- gathering and adding up ---------------------------------------------------


@means("index_add scatter_add")
def _index_add(g: Given) -> Val:
    name, at, m = g.call.name, g.positions("index"), g.m
    source = g.val("source" if name == "index_add" else "src")
    base = g.val("self")
    if "alpha" in g:
        source = m.mul(source, m.constant(g.get("alpha")))
    dim = g.get("dim")

    def add(t: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros(base.shape, dtype=torch.float64)
        return zero.index_add(dim, at, t) if name == "index_add" else zero.scatter_add(dim, at, t)

    return m.add(base, m.linear(add, source, max(source.p.numel(), 1)))


@means("index_put _unsafe_index_put _index_put_impl")
def _index_put(g: Given) -> Val:
    m, base, values = g.m, g.val("self"), g.val("values")
    indices = [None if i is None else g.places(i) for i in g.get("indices")]
    if g.get("accumulate", False):
        zero = torch.zeros(base.shape, dtype=torch.float64)
        put = m.linear(
            lambda t: torch.ops.aten.index_put(zero, indices, t, True), values, max(base.p.numel(), values.p.numel(), 1)
        )
        return m.add(base, put)
    nan = torch.full((), NAN, dtype=torch.float64)
    p = torch.ops.aten.index_put(base.p, indices, values.p)
    q = torch.ops.aten.index_put(
        nan.expand(base.shape) if base.q is None else base.q,
        indices,
        nan.expand(values.shape) if values.q is None else values.q,
    )
    return Val(p, q, base.degree.worst(values.degree), max(base.bits, values.bits))


@means("embedding_dense_backward")
def _embedding_backward(g: Given) -> Val:
    grad, at = g.val("grad_output"), g.positions("indices")
    if g.get("scale_grad_by_freq", False):
        raise NotModelled("scale_grad_by_freq")
    rows = at.reshape(-1)
    kept = rows != g.get("padding_idx", -1)
    zero = torch.zeros(g.get("num_weights"), grad.shape[-1], dtype=torch.float64)

    def add(t: torch.Tensor) -> torch.Tensor:
        return zero.index_add(0, rows[kept], t.reshape(-1, t.shape[-1])[kept])

    return g.m.linear(add, grad, max(rows.numel(), 1))


#: Sums of elements, each at most once in an output.
_SUMS = """slice_backward select_backward diagonal_backward unfold_backward expand_backward col2im trace
 value_selecting_reduction_backward"""


@means(_SUMS)
def _sums(g: Given) -> Val:
    """Linear in the one floating-point tensor; its own kernel adds up."""
    tensor = next(t for t in g.call.tensors if t.is_floating_point())
    x = g.value(tensor)

    def run(t: torch.Tensor) -> torch.Tensor:
        packet = aten_packet(g.call.name)
        assert packet is not None
        given = {
            k: t if v is tensor else g.places(v) if isinstance(v, torch.Tensor) else v
            for k, v in g.call.arguments.items()
        }
        return packet(**given)  # type: ignore[no-any-return]

    return g.m.linear(run, x, max(x.p.numel(), 1))
