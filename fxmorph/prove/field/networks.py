"""Convolutions, pooling, normalisation, attention, losses and gradients in field arithmetic (see ``operations.py``)."""

from __future__ import annotations

import math
from typing import Any

import torch

from fxmorph.prove.field.arithmetic import Arithmetic
from fxmorph.prove.field.elements import Val
from fxmorph.prove.field.meanings import Given, means
from fxmorph.prove.field.pointwise import sigmoid
from fxmorph.prove.field.reductions import exponentials
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.torchapi.dispatch import aten_packet, schema_of

F = torch.nn.functional

# -- convolutions and pooling ---------------------------------------------------


@means("convolution _convolution mkldnn_convolution convolution_overrideable")
def _convolution(g: Given) -> Val:
    x, w = g.val("input") if "input" in g else g.val("self"), g.val("weight")
    rest = [g.get("stride"), g.get("padding"), g.get("dilation")]
    transposed, groups = g.get("transposed", False), g.get("groups", 1)
    output_padding = g.get("output_padding", [0] * len(rest[0]))
    terms = math.prod(w.shape[2:]) * w.shape[0 if transposed else 1]

    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(a, b, None, *rest, transposed, output_padding, groups)

    out = g.m.bilinear(kernel, x, w, terms)
    bias = g.maybe("bias")
    return out if bias is None else g.m.add(out, bias.map(lambda t: t.reshape(-1, *[1] * (w.ndim - 2))))


@means("convolution_backward")
def _convolution_backward(g: Given) -> Any:
    m, grad, x, w = g.m, g.val("grad_output"), g.val("input"), g.val("weight")
    names = "stride padding dilation transposed output_padding groups".split()
    rest = [g.call.arguments.get(k) for k in names]
    mask = g.get("output_mask", [True, True, True])
    terms = math.prod(w.shape[2:]) * max(w.shape[0], w.shape[1])
    spatial = math.prod(grad.shape[2:]) * grad.shape[0]
    zero_x, zero_w = torch.zeros_like(x.p), torch.zeros_like(w.p)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, which: int) -> torch.Tensor:
        only = [i == which for i in range(3)]
        out = torch.ops.aten.convolution_backward(a.contiguous(), b.contiguous(), c.contiguous(), None, *rest, only)
        return out[which]  # type: ignore[no-any-return]

    outs: list[Val | None] = [None, None, None]
    if mask[0]:
        outs[0] = m.bilinear(lambda a, c: run(a, zero_x, c, 0), grad, w, terms)
    if mask[1]:
        outs[1] = m.bilinear(lambda a, b: run(a, b, zero_w, 1), grad, x, spatial * max(1, math.prod(w.shape[2:])))
    if mask[2]:
        outs[2] = m.sum(grad, [d for d in range(grad.ndim) if d != 1])
    return outs


@means("max_pool2d_with_indices max_pool2d max_pool1d")
def _max_pool(g: Given) -> Any:
    """The maximum over each window of the input padded with -infinity."""
    m, x = g.m, g.val("self")
    n = 1 if g.call.name == "max_pool1d" else 2

    def each(name: str, default: Any) -> list[int]:
        value = g.get(name, default) or default
        value = [value] if isinstance(value, int) else list(value)
        return value * n if len(value) == 1 else value

    size = each("kernel_size", 1)
    stride, padding, dilation = each("stride", size), each("padding", [0]), each("dilation", [1])
    if g.get("ceil_mode", False):
        raise NotModelled("ceil_mode")
    if any(padding):
        m.infinite = True
    around = [p for pad in reversed(padding) for p in (pad, pad)]

    def windows(t: torch.Tensor) -> torch.Tensor:
        t = F.pad(t, around, value=-math.inf)
        first = t.ndim - n
        for i in range(n):
            t = t.unfold(first + i, dilation[i] * (size[i] - 1) + 1, stride[i])
        for i in range(n):
            t = t[(slice(None),) * (t.ndim - n + i) + (slice(None, None, dilation[i]),)]
        return t

    rows = x.map(windows)
    values = m.largest(rows, list(range(rows.ndim - n, rows.ndim)), False)
    return [values, None] if g.call.name.endswith("indices") else values


@means("avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d")
def _avg_pool(g: Given) -> Val:
    """The mean over each window."""
    x = g.val("self")
    rest = {k: v for k, v in g.call.arguments.items() if k != "self"}
    packet = aten_packet(g.call.name)
    assert packet is not None
    counts = window_counts(g.call.name, rest, x.shape)
    sums = g.m.linear(lambda t: (packet(t, **rest) * counts).round(), x, int(counts.max()) if counts.numel() else 1)
    return g.m.mul(sums, g.m.constants(1 / counts))


@means("avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward")
def _avg_pool_backward(g: Given) -> Val:
    grad, like = g.val("grad_output"), g.native("self")
    name = g.call.name.removesuffix("_backward")
    rest = {k: v for k, v in g.call.arguments.items() if k not in ("grad_output", "self")}
    packet = aten_packet(g.call.name)
    assert packet is not None
    if name.startswith("_adaptive"):
        rest["output_size"] = list(grad.shape[-2 if name.endswith("2d") else -3 :])
    counts = window_counts(name, rest, like.shape)
    if name.startswith("_adaptive"):
        rest = {}
    else:
        rest = {a.name: g.call.arguments.get(a.name) for a in schema_of(g.call.func).arguments[2:]}
    zero = torch.zeros(like.shape, dtype=torch.float64)
    shares = g.m.mul(grad, g.m.constants(1 / counts))
    return g.m.linear(lambda t: packet(t * counts, zero, **rest).round(), shares, max(grad.p.numel(), 1))


def window_counts(name: str, rest: dict[str, Any], shape: torch.Size) -> torch.Tensor:
    """What each window's sum is divided by (float64, of the shape of the windows of one channel)."""
    if "adaptive" in name:
        out = torch.ones((), dtype=torch.float64)
        sizes = rest["output_size"]
        for n, size in zip(shape[-len(sizes) :], sizes, strict=True):
            widths = [-(-(i + 1) * n // size) - i * n // size for i in range(size)]
            out = out.unsqueeze(-1) * torch.tensor(widths, dtype=torch.float64)
        return out
    if rest.get("divisor_override"):
        return torch.tensor(float(rest["divisor_override"]), dtype=torch.float64)
    n = int(name[-2])
    given = {k: v for k, v in rest.items() if v is not None}
    one = torch.ones(1, *shape[-n:], dtype=torch.float64)
    if n == 1:
        name = "avg_pool2d"
        for key in ("kernel_size", "stride", "padding"):
            if given.get(key):
                value = given[key][0] if isinstance(given[key], (list, tuple)) else given[key]
                given[key] = [0 if key == "padding" else 1, value]
        one = one.unsqueeze(1)
    packet = aten_packet(name)
    assert packet is not None
    valid = packet(one, **{**given, "divisor_override": 1})
    counts = torch.where(valid == 0, 1.0, (valid / packet(one, **given)).round())
    return counts.reshape(counts.shape[-n:]) if n > 1 else counts.reshape(-1)


# -- normalisation -------------------------------------------------------------


def _normalised(m: Arithmetic, x: Val, dims: list[int], eps: Any) -> tuple[Val, Val, Val]:
    """(x - mean) rstd, mean and rstd, dimensions kept."""
    mean = m.mean(x, dims, True)
    centered = m.sub(x, mean)
    variance = m.mean(m.square(centered), dims, True)
    rstd = m.invert(m.root(m.add(variance, m.constant(eps))))
    return m.mul(centered, rstd), mean, rstd


def _affine(m: Arithmetic, x: Val, weight: Val | None, bias: Val | None) -> Val:
    x = x if weight is None else m.mul(x, weight)
    return x if bias is None else m.add(x, bias)


@means("native_layer_norm")
def _layer_norm(g: Given) -> Any:
    x = g.val("input")
    n = len(g.get("normalized_shape"))
    out, mean, rstd = _normalised(g.m, x, list(range(x.ndim - n, x.ndim)), g.get("eps"))
    return [_affine(g.m, out, g.maybe("weight"), g.maybe("bias")), mean, rstd]


@means("_fused_rms_norm rms_norm")
def _rms_norm(g: Given) -> Any:
    m, x = g.m, g.val("input")
    n = len(g.get("normalized_shape"))
    eps = g.get("eps", torch.finfo(g.native("input").dtype).eps)
    square = m.mean(m.square(x), list(range(x.ndim - n, x.ndim)), True)
    rstd = m.invert(m.root(m.add(square, m.constant(eps))))
    out = _affine(m, m.mul(x, rstd), g.maybe("weight"), None)
    return [out, rstd] if g.call.name.startswith("_fused") else out


@means("native_group_norm")
def _group_norm(g: Given) -> Any:
    m, x = g.m, g.val("input")
    n, c, group = g.get("N"), g.get("C"), g.get("group")
    grouped = x.map(lambda t: t.reshape(n, group, -1))
    out, mean, rstd = _normalised(m, grouped, [2], g.get("eps"))
    out = out.map(lambda t: t.reshape(x.shape))
    shape = (c, *[1] * (x.ndim - 2))
    weight, bias = g.maybe("weight"), g.maybe("bias")
    weight = weight and weight.map(lambda t: t.reshape(shape))
    bias = bias and bias.map(lambda t: t.reshape(shape))
    flat = [v.map(lambda t: t.reshape(n, group)) for v in (mean, rstd)]
    return [_affine(m, out, weight, bias), *flat]


@means("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm")
def _batch_norm(g: Given) -> Any:
    m, x = g.m, g.val("input")
    training = g.get("training", False) and not g.call.name.endswith("no_training")
    shape = (1, -1, *[1] * (x.ndim - 2))
    weight, bias = g.maybe("weight"), g.maybe("bias")
    weight = weight and weight.map(lambda t: t.reshape(shape))
    bias = bias and bias.map(lambda t: t.reshape(shape))
    if training:
        if g.call.written or "running_mean" in g:
            raise NotModelled("running statistics")
        out, mean, rstd = _normalised(m, x, [d for d in range(x.ndim) if d != 1], g.get("eps"))
        return [_affine(m, out, weight, bias), *(v.map(lambda t: t.reshape(-1)) for v in (mean, rstd))]
    mean, var = (g.val(k).map(lambda t: t.reshape(shape)) for k in ("running_mean", "running_var"))
    rstd = m.invert(m.root(m.add(var, g.number(g.get("eps")))))
    out = _affine(m, m.mul(m.sub(x, mean), rstd), weight, bias)
    empty = Val(torch.zeros(0, dtype=torch.float64), None)
    return [out, empty, empty]


# -- attention -----------------------------------------------------------------


def _weights(g: Given) -> tuple[Val, Val, Val]:
    """The weights of attention, the sums that they were divided by, and the scale of scores."""
    m, q, k = g.m, g.val("query"), g.val("key")
    scale = g.get("scale")
    factor = m.invert(m.root(m.fraction(q.shape[-1]))) if scale is None else m.constant(scale)
    scores = m.mul(m.matmul(q, k.map(lambda t: t.mT)), factor)
    if g.get("is_causal", False):
        m.infinite = True
        mask = m.truth(torch.ones(scores.shape[-2:], dtype=torch.bool).tril())
        scores = m.where(mask, scores, m.constant(-math.inf))
    if "attn_mask" in g:
        scores = m.add(scores, g.val("attn_mask"))
    e, s = exponentials(m, scores, scores.ndim - 1)
    return m.div(e, s), s, factor


@means("_scaled_dot_product_flash_attention_for_cpu scaled_dot_product_attention")
def _attention(g: Given) -> Any:
    weights, sums, _ = _weights(g)
    out = g.m.matmul(weights, g.val("value"))
    return [out, g.m.log(sums.map(lambda t: t.squeeze(-1)))] if g.call.name.startswith("_") else out


@means("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_backward(g: Given) -> Any:
    m, grad = g.m, g.val("grad_out")
    if g.get("dropout_p", 0.0):
        raise NotModelled("dropout")
    weights, _, factor = _weights(g)

    def transposed(v: Val) -> Val:
        return v.map(lambda t: t.mT)

    inner = m.mul(weights, m.matmul(grad, transposed(g.val("value"))))
    scores = m.mul(m.sub(inner, m.mul(weights, m.sum(inner, [inner.ndim - 1], True))), factor)
    query, key = m.matmul(scores, g.val("key")), m.matmul(transposed(scores), g.val("query"))
    return [query, key, m.matmul(transposed(weights), grad)]


# -- losses --------------------------------------------------------------------


def reduced(g: Given, x: Val, default: int = 1) -> Val:
    how = g.call.arguments.get("reduction", default)
    every = list(range(x.ndim))
    return x if how == 0 else g.m.mean(x, every) if how == 1 else g.m.sum(x, every)


@means("mse_loss")
def _mse(g: Given) -> Val:
    return reduced(g, g.m.square(g.m.sub(g.val("self"), g.val("target"))))


@means("l1_loss")
def _l1(g: Given) -> Val:
    return reduced(g, g.m.absolute(g.m.sub(g.val("self"), g.val("target"))))


@means("nll_loss_forward")
def _nll(g: Given) -> Any:
    m, x, target = g.m, g.val("self"), g.positions("target")
    ignored = g.call.arguments.get("ignore_index", -100)
    how = g.call.arguments.get("reduction", 1)
    if x.ndim == 1:
        x, target = x.map(lambda t: t.unsqueeze(0)), target.reshape(1)
    kept = target != ignored
    at = torch.where(kept, target, torch.zeros_like(target))
    picked = m.neg(x.map(lambda t: t.gather(1, at.unsqueeze(1)).squeeze(1)))
    weight = m.truth(kept)
    if "weight" in g:
        weight = m.mul(weight, g.val("weight").map(lambda t: t[at]))
    losses = m.mul(picked, weight)
    total = m.sum(weight, [0])
    if how == 0:
        return [losses.map(lambda t: t.reshape(g.call.targets[0].shape)), m.fraction(0)]
    loss = m.sum(losses, [0])
    return [m.div(loss, total) if how == 1 else loss, total]


# -- gradients -----------------------------------------------------------------


@means("_softmax_backward_data")
def _softmax_backward(g: Given) -> Val:
    m, grad, y = g.m, g.val("grad_output"), g.val("output")
    inner = m.mul(grad, y)
    dims = [g.get("dim") % y.ndim] if y.ndim else []
    return m.sub(inner, m.mul(y, m.sum(inner, dims, True)))


@means("_log_softmax_backward_data")
def _log_softmax_backward(g: Given) -> Val:
    m, grad, y = g.m, g.val("grad_output"), g.val("output")
    dims = [g.get("dim") % y.ndim] if y.ndim else []
    return m.sub(grad, m.mul(m.exp(y), m.sum(grad, dims, True)))


@means("sigmoid_backward")
def _sigmoid_backward(g: Given) -> Val:
    m, y = g.m, g.val("output")
    return m.mul(g.val("grad_output"), m.mul(y, m.sub(m.fraction(1), y)))


@means("tanh_backward")
def _tanh_backward(g: Given) -> Val:
    m, y = g.m, g.val("output")
    return m.mul(g.val("grad_output"), m.sub(m.fraction(1), m.square(y)))


@means("silu_backward")
def _silu_backward(g: Given) -> Val:
    m, x = g.m, g.val("self")
    s = sigmoid(m, x)
    return m.mul(g.val("grad_output"), m.mul(s, m.add(m.fraction(1), m.mul(x, m.sub(m.fraction(1), s)))))


@means("threshold_backward")
def _threshold_backward(g: Given) -> Val:
    m = g.m
    m.compared = True
    return m.where(m.less(g.val("threshold", 0), g.val("self")), g.val("grad_output"), m.fraction(0))


@means("softplus_backward")
def _softplus_backward(g: Given) -> Val:
    m = g.m
    return m.mul(g.val("grad_output"), sigmoid(m, m.mul(g.val("self"), g.number(g.get("beta", 1)))))


@means("log_sigmoid_backward")
def _log_sigmoid_backward(g: Given) -> Val:
    return g.m.mul(g.val("grad_output"), sigmoid(g.m, g.m.neg(g.val("self"))))


@means("max_pool2d_with_indices_backward")
def _max_pool_backward(g: Given) -> Val:
    """To the element of each window that was the largest."""
    at, grad, like = g.positions("indices"), g.val("grad_output"), g.native("self")
    zero = torch.zeros((*like.shape[:-2], like.shape[-2] * like.shape[-1]), dtype=torch.float64)
    flat = at.flatten(-2)
    return g.m.linear(lambda t: zero.scatter_add(-1, flat, t.flatten(-2)).reshape(like.shape), grad, grad.p.numel())
