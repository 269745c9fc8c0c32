"""Reductions, norms, extremes and scans in field arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch

from fxmorph.prove.field.arithmetic import Arithmetic
from fxmorph.prove.field.elements import FRESH, Val
from fxmorph.prove.field.meanings import Given, means
from fxmorph.prove.shadow_memory import NotModelled


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
