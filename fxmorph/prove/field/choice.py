"""Comparisons, logic and choices in field arithmetic."""

from __future__ import annotations

import torch

from fxmorph.prove.field.elements import Val
from fxmorph.prove.field.meanings import Given, means
from fxmorph.prove.field.pointwise import either
from fxmorph.prove.shadow_memory import NotModelled


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
    return g.m.where(g.m.less(g.m.fraction(0), x), x, g.m.mul(x, g.number(g.get("negative_slope", 0.01))))


@means("threshold")
def _threshold(g: Given) -> Val:
    """value where x <= threshold, else x."""
    x = g.val("self")
    g.m.compared = True
    return g.m.where(g.m.less(g.val("threshold", 0), x), x, g.val("value", 0))


@means("elu")
def _elu(g: Given) -> Val:
    m, x = g.m, g.val("self")
    alpha, scale, inner = (g.number(g.get(k, 1)) for k in ("alpha", "scale", "input_scale"))
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


def _of_arguments_only(g: Given) -> None:
    """Raises where what was computed is asked about: finite numbers may give NaN and Inf, which no reals are."""
    for name in ("nan", "posinf", "neginf"):
        g.get(name)
    if g.native("self").is_floating_point() and not g.loader.is_argument(g.call, g.native("self")):
        raise NotModelled(f"{g.call.name} of what was computed")
    g.m.assumptions.add("finite")


@means("isnan isinf")
def _never(g: Given) -> Val:
    """Never, of reals."""
    _of_arguments_only(g)
    return g.m.where(g.m.truth(torch.ones_like(g.native("self"), dtype=torch.bool)), g.m.fraction(0), g.m.fraction(0))


@means("isfinite")
def _always(g: Given) -> Val:
    _of_arguments_only(g)
    return g.m.truth(torch.ones_like(g.native("self"), dtype=torch.bool))


@means("nan_to_num")
def _nan_to_num(g: Given) -> Val:
    _of_arguments_only(g)
    return g.val("self")
