"""Fusion-prone neural network operations and their explicit spellings."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
SINGLE = ("float32", "float64")


@rule(args={"x": "..."}, where=["type(d) is int", "x.numel > 0", "x.ndim >= 1"], scalars={"d": None},
      dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "softmax"))
class fusion_softmax_by_hand:
    """Computes softmax as shifted exponentials over their sum.

    Why equivalent: The definition; the shift cancels.
    Provokes: Online-softmax fusion (prepare_softmax) looks for this form.
    """

    def before(x, d): return F.softmax(x, dim=d)

    def after(x, d):
        e = torch.exp(x - x.amax(d, keepdim=True).detach())
        return e / e.sum(d, keepdim=True)


@rule(args={"x": "..."}, where=["type(d) is int", "x.numel > 0", "x.ndim >= 1"], scalars={"d": None},
      dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "softmax"))
class fusion_softmax_by_log:
    """Computes softmax as exp of log_softmax.

    Why equivalent: The definition.
    """

    def before(x, d): return F.softmax(x, dim=d)

    def after(x, d): return F.log_softmax(x, dim=d).exp()


@rule(args={"x": "..."}, where=["type(d) is int", "x.numel > 0", "x.ndim >= 1"], scalars={"d": None},
      dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "softmax"))
class fusion_softmax_shifted:
    """Subtracts the mean before softmax.

    Why equivalent: softmax does not change under a shift of the whole row.
    """

    def before(x, d): return F.softmax(x, dim=d)

    def after(x, d): return F.softmax(x - x.mean(d, keepdim=True), dim=d)


@rule(args={"x": "..."}, where=["type(d) is int", "x.ndim >= 2", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc", "softmax"))
class fusion_softmax_permuted:
    """Moves the softmax dimension first, normalises, moves it back.

    Why equivalent: The rows are the same.
    Provokes: Reduction over a strided dimension.
    """

    def before(x, d): return F.softmax(x, dim=d)

    def after(x, d): return F.softmax(x.transpose(0, d), dim=0).transpose(0, d)


@rule(args={"x": "..."},
      where=["type(d) is int", "type(c) in (int, float)", "c != 0", "1e-3 < abs(c) < 1e3", "x.numel > 0"],
      scalars={"c": None, "d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "softmax"))
class fusion_softmax_of_scaled:
    """Divides the logits by the inverse where they were multiplied before softmax.

    Why equivalent: Equal over the reals.
    Provokes: Joint-graph patterns rewrite softmax(x * c) and softmax(x / c) with a shifted maximum.
    """

    def before(x, c, d): return F.softmax(x * c, dim=d)

    def after(x, c, d): return F.softmax(x / (1.0 / c), dim=d)


@rule(args={"x": "..."},
      where=["type(d) is int", "type(c) in (int, float)", "c != 0", "1e-3 < abs(c) < 1e3", "x.numel > 0"],
      scalars={"c": None, "d": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "softmax"))
class fusion_softmax_of_divided:
    """Multiplies by the inverse and subtracts the maximum where logits were divided before softmax.

    Why equivalent: Equal over the reals.
    Provokes: div_softmax_pattern of the joint graph; negative scales swap maximum and minimum.
    """

    def before(x, c, d): return F.softmax(x / c, dim=d)

    def after(x, c, d):
        y = x * (1.0 / c)
        return F.softmax(y - y.amax(d, keepdim=True).detach(), dim=d)


@rule(args={"x": "..."}, where=["type(d) is int", "x.numel > 0", "x.ndim >= 1"], scalars={"d": None},
      dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "log_softmax"))
class fusion_log_softmax_by_hand:
    """Computes log_softmax as x less logsumexp.

    Why equivalent: The definition.
    """

    def before(x, d): return F.log_softmax(x, dim=d)

    def after(x, d): return x - torch.logsumexp(x, d, keepdim=True)


@rule(args={"x": "..."}, where=["type(d) is int", "x.numel > 0", "x.ndim >= 1"], scalars={"d": None},
      dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "log_softmax"))
class fusion_log_softmax_of_softmax:
    """Computes log_softmax from shifted exponentials.

    Why equivalent: The definition, with a detached shift.
    """

    def before(x, d): return F.log_softmax(x, dim=d)

    def after(x, d):
        y = x - x.amax(d, keepdim=True).detach()
        return y - y.exp().sum(d, keepdim=True).log()


@rule(args={"x": "... n", "w": "n", "b": "n"}, where=["n >= 2", "type(e) is float", "1e-8 < e < 1", "x.numel > 0"],
      scalars={"e": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "layer_norm"))
class fusion_layer_norm_by_hand:
    """Computes layer_norm from mean and variance.

    Why equivalent: The definition.
    Provokes: Welford reductions are replaced by two-pass sums.
    """

    def before(x, w, b, e): return F.layer_norm(x, (x.shape[-1],), w, b, e)

    def after(x, w, b, e):
        c = x - x.mean(-1, keepdim=True)
        return c * torch.rsqrt((c * c).mean(-1, keepdim=True) + e) * w + b


@rule(args={"x": "... n", "w": "n", "b": "n"}, where=["n >= 2", "type(e) is float", "1e-8 < e < 1", "x.numel > 0"],
      scalars={"e": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "layer_norm", "welford"))
class fusion_layer_norm_by_var:
    """Computes layer_norm from var_mean.

    Why equivalent: The definition; the variance is the biased one.
    """

    def before(x, w, b, e): return F.layer_norm(x, (x.shape[-1],), w, b, e)

    def after(x, w, b, e):
        var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return torch.addcmul(b, (x - mean) / torch.sqrt(var + e), w)


@rule(args={"x": "... n", "w": "n", "b": "n"}, where=["n >= 2", "type(e) is float", "1e-8 < e < 1", "x.numel > 0"],
      scalars={"e": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "layer_norm"))
class fusion_layer_norm_plain:
    """Applies weight and bias of layer_norm outside.

    Why equivalent: The affine part is separate.
    """

    def before(x, w, b, e): return F.layer_norm(x, (x.shape[-1],), w, b, e)

    def after(x, w, b, e): return F.layer_norm(x, (x.shape[-1],), None, None, e) * w + b


@rule(args={"x": "m n", "w": "n", "b": "n"}, where=["n >= 2", "type(e) is float", "1e-8 < e < 1", "x.numel > 0"],
      scalars={"e": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "group_norm"))
class fusion_layer_norm_as_group_norm:
    """Computes layer_norm of a matrix as group_norm with one group.

    Why equivalent: One group is the whole row.
    """

    def before(x, w, b, e): return F.layer_norm(x, (x.shape[-1],), w, b, e)

    def after(x, w, b, e): return F.group_norm(x, 1, w, b, e)


@rule(args={"x": "... n", "w": "n"}, where=["type(e) is float", "1e-8 < e < 1", "x.numel > 0"],
      scalars={"e": None}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "rms_norm"))
class fusion_rms_norm_by_hand:
    """Computes rms_norm from the mean of squares.

    Why equivalent: The definition.
    """

    def before(x, w, e): return F.rms_norm(x, (x.shape[-1],), w, e)

    def after(x, w, e): return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + e) * w


@rule(args={"x": "..."}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc", "gelu"))
class fusion_gelu_by_hand:
    """Computes gelu by erf.

    Why equivalent: The definition.
    Provokes: Pre-grad and mkldnn patterns look for this form.
    """

    def before(x): return F.gelu(x)

    def after(x): return x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))


@rule(args={"x": "..."}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc", "gelu"))
class fusion_gelu_tanh_by_hand:
    """Computes the tanh form of gelu by hand.

    Why equivalent: The definition.
    """

    def before(x): return F.gelu(x, approximate="tanh")

    def after(x): return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3))))


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "silu"))
class fusion_silu_by_hand:
    """Computes silu as x times its sigmoid.

    Why equivalent: The definition.
    """

    def before(x): return F.silu(x)

    def after(x): return x * torch.sigmoid(x)


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "kc", "silu"))
class fusion_silu_from_ops:
    """Spells x times its sigmoid as silu.

    Why equivalent: The definition.
    """

    def before(x): return x * torch.sigmoid(x)

    def after(x): return F.silu(x)


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("bam",))
class fusion_silu_in_place:
    """Applies silu in place on a clone.

    Why equivalent: The clone is fresh memory.
    Limits: Vectorised and scalar loops differ in the last bit.
    """

    def before(x): return F.silu(x)

    def after(x): return F.silu(x.clone(), inplace=True)


@rule(args={"x": "..."}, where=["type(c) is float", "0 < c < 1"], scalars={"c": None}, dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "leaky_relu"))
class fusion_leaky_relu_as_where:
    """Computes leaky_relu by a select.

    Why equivalent: The definition; at 0 both have the slope of the negative side.
    """

    def before(x, c): return F.leaky_relu(x, c)

    def after(x, c): return torch.where(x > 0, x, x * c)


@rule(args={"x": "..."}, dtypes=SINGLE, claim=Level.EXACT_REAL, preserves=("dtype", "mutation"),
      targets=("iod", "elu"))
class fusion_elu_as_where:
    """Computes elu by a select between x and expm1.

    Why equivalent: The definition with alpha 1.
    Limits: expm1 of large x is masked in the value only.
    """

    def before(x): return F.elu(x)

    def after(x): return torch.where(x > 0, x, torch.expm1(x))


@rule(args={"x": "..."}, dtypes=SINGLE, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("iod", "hardtanh"))
class fusion_hardtanh_as_clamp:
    """Computes hardtanh by clamp.

    Why equivalent: The definition with the default bounds.
    """

    def before(x): return F.hardtanh(x)

    def after(x): return x.clamp(-1.0, 1.0)


@rule(args={"x": "..."}, dtypes=SINGLE, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "softplus"))
class fusion_softplus_as_logaddexp:
    """Computes softplus as logaddexp with 0.

    Why equivalent: log(e^0 + e^x). Equal over the reals (softplus is linear beyond 20).
    """

    def before(x): return F.softplus(x)

    def after(x): return torch.logaddexp(x, torch.zeros_like(x))


@rule(args={"x": "... n"}, where=["n % 2 == 0", "n >= 2"], claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "glu", "split_cat"))
class fusion_glu_by_hand:
    """Computes glu from chunks.

    Why equivalent: The definition.
    """

    def before(x): return F.glu(x, -1)

    def after(x):
        a, b = x.chunk(2, -1)
        return a * torch.sigmoid(b)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "x.numel > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc", "mse_loss"))
class fusion_mse_by_hand:
    """Computes the mean squared error by hand.

    Why equivalent: The definition.
    """

    def before(x, y): return F.mse_loss(x, y)

    def after(x, y): return torch.square(x - y).sum() / x.numel()


@rule(args={"x": "m n", "t": "m"},
      where=["x.dtype in ('float32', 'float64')", "t.dtype == 'int64'", "m >= 1", "n >= 2"],
      dtypes=(*SINGLE, "int64"), mixed=True, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "nll_loss"))
class fusion_cross_entropy_by_hand:
    """Computes cross entropy by log_softmax and gather.

    Why equivalent: The definition with mean reduction.
    Limits: Targets must be classes (no ignore_index).
    """

    def before(x, t): return F.cross_entropy(x, t)

    def after(x, t): return -F.log_softmax(x, dim=1).gather(1, t.unsqueeze(1)).mean()


@rule(args={"x": "... n"}, where=["x.numel > 0"], dtypes=SINGLE, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation"), targets=("iod", "kc", "norm"))
class fusion_normalize_by_hand:
    """Normalises rows by hand.

    Why equivalent: x over its norm, clamped from below by 1e-12.
    Limits: The gradient of a zero row differs.
    """

    def before(x): return F.normalize(x, dim=-1)

    def after(x): return x / torch.sqrt((x * x).sum(-1, keepdim=True)).clamp(min=1e-12)


@rule(args={"q": "b h s d", "k": "b h t d", "v": "b h t e"}, where=["b * h * s * t * d * e > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "fuse_attention"))
class fusion_attention_by_hand:
    """Computes attention explicitly, scores divided by sqrt(d).

    Why equivalent: The definition without mask and dropout.
    Provokes: sfdp patterns turn this back into the fused operator.
    """

    def before(q, k, v): return F.scaled_dot_product_attention(q, k, v)

    def after(q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)).div(q.shape[-1] ** 0.5)
        return torch.matmul(scores.softmax(dim=-1), v)


@rule(args={"q": "b h s d", "k": "b h t d", "v": "b h t e"}, where=["b * h * s * t * d * e > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "fuse_attention"))
class fusion_attention_scaled_query:
    """Scales the query and computes attention explicitly, keys permuted in two steps.

    Why equivalent: The scale is linear. (0, 2, 1, 3) and then (0, 2, 3, 1) is the transposition of the last two
    dimensions.
    """

    def before(q, k, v): return F.scaled_dot_product_attention(q, k, v)

    def after(q, k, v):
        keys = k.permute(0, 2, 1, 3).permute(0, 2, 3, 1)
        return torch.softmax((q * q.shape[-1] ** -0.5) @ keys, -1) @ v


@rule(args={"q": "b h s d", "k": "b h t d", "v": "b h t e"}, where=["b * h * s * t * d * e > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "fuse_attention"))
class fusion_attention_scaled_key:
    """Passes the scale to the fused operator as 1, having scaled the keys.

    Why equivalent: The scale is linear.
    """

    def before(q, k, v): return F.scaled_dot_product_attention(q, k, v)

    def after(q, k, v): return F.scaled_dot_product_attention(q, k / q.shape[-1] ** 0.5, v, scale=1.0)


@rule(args={"q": "b h s d", "k": "b h t d", "v": "b h t e"}, where=["b * h * s * t * d * e > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "fuse_attention"))
class fusion_attention_zero_mask:
    """Adds a float mask of zeros to attention.

    Why equivalent: Adding 0 to the scores changes nothing.
    """

    def before(q, k, v): return F.scaled_dot_product_attention(q, k, v)

    def after(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=q.new_zeros(q.shape[-2], k.shape[-2]))


@rule(args={"q": "b h s d", "k": "b h t d", "v": "b h t e"}, where=["b * h * s * t * d * e > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("ugo", "fuse_attention"))
class fusion_attention_integer_mask:
    """Computes attention explicitly with a mask of twos, filled where the mask is 0.

    Why equivalent: No element of the mask is 0.
    Provokes: sfdp patterns 15, 17 and 20 match `mask == 0` and keep only `mask == 1`.
    """

    def before(q, k, v): return F.scaled_dot_product_attention(q, k, v)

    def after(q, k, v):
        mask = torch.full((q.shape[0], 1, q.shape[2], k.shape[2]), 2.0, dtype=q.dtype, device=q.device)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return scores.masked_fill(mask == 0, -torch.inf).softmax(-1) @ v


@rule(args={"q": "b h s d", "k": "b h t d", "v": "b h t e"}, where=["b * h * s * t * d * e > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "fuse_attention"))
class fusion_attention_heads_folded:
    """Folds heads into the batch and computes attention by bmm.

    Why equivalent: Heads are independent.
    """

    def before(q, k, v): return F.scaled_dot_product_attention(q, k, v)

    def after(q, k, v):
        a = q.reshape(-1, q.shape[2], q.shape[3])
        c = k.reshape(-1, k.shape[2], k.shape[3])
        p = torch.baddbmm(a.new_zeros(a.shape[0], a.shape[1], c.shape[1]), a, c.mT, alpha=q.shape[-1] ** -0.5)
        return torch.bmm(p.softmax(-1), v.reshape(-1, v.shape[2], v.shape[3])).view(q.shape[:3] + v.shape[3:])


@rule(args={"w": "n d", "i": "..."}, where=["w.dtype in ('float32', 'float64')", "i.dtype == 'int64'", "n >= 2"],
      dtypes=(*SINGLE, "int64"), mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "embedding"))
class fusion_embedding_as_index_select:
    """Looks rows up by index_select of the flattened indices.

    Why equivalent: The same rows.
    """

    def before(w, i): return F.embedding(i, w)

    def after(w, i): return w.index_select(0, i.reshape(-1)).view(i.shape + w.shape[1:])


@rule(args={"w": "n d", "i": "..."}, where=["w.dtype in ('float32', 'float64')", "i.dtype == 'int64'", "n >= 2"],
      dtypes=(*SINGLE, "int64"), mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "embedding"))
class fusion_embedding_as_index:
    """Looks rows up by indexing.

    Why equivalent: The same rows.
    Provokes: The backward is index_put with accumulation.
    """

    def before(w, i): return F.embedding(i, w)

    def after(w, i): return w[i]


@rule(args={"w": "n d", "i": "..."}, where=["w.dtype in ('float32', 'float64')", "i.dtype == 'int64'", "n >= 2"],
      dtypes=(*SINGLE, "int64"), mixed=True, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc"))
class fusion_embedding_as_one_hot:
    """Looks rows up by a product with one-hot rows.

    Why equivalent: One term of each sum is not 0.
    Provokes: The one-hot is a comparison with arange.
    """

    def before(w, i): return F.embedding(i, w)

    def after(w, i): return (i.unsqueeze(-1) == torch.arange(w.shape[0], device=w.device)).to(w.dtype) @ w


@rule(args={"x": "n c h w", "k": "o c 1 1"}, where=["n * c * h * w * o > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("ilp", "kc", "conv", "layout_opt"))
class fusion_conv1x1_as_matmul:
    """Computes a 1x1 convolution as a matrix product over channels.

    Why equivalent: Pixels are independent.
    """

    def before(x, k): return F.conv2d(x, k)

    def after(x, k):
        y = k.flatten(1) @ x.flatten(2)
        return y.view(x.shape[0], k.shape[0], x.shape[2], x.shape[3])


@rule(args={"x": "n c h w", "k": "o c 3 3"}, where=["n * c * h * w * o > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc", "conv"))
class fusion_conv_padded_by_hand:
    """Pads by hand before an unpadded convolution.

    Why equivalent: padding=1 is a border of zeros.
    """

    def before(x, k): return F.conv2d(x, k, padding=1)

    def after(x, k): return F.conv2d(F.pad(x, (1, 1, 1, 1)), k)


@rule(args={"x": "n c h w", "k": "o c 3 3"}, where=["n * c * h * w * o > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "im2col"))
class fusion_conv_as_unfold:
    """Computes a padded 3x3 convolution by unfold and a matrix product.

    Why equivalent: Unfolding (im2col) makes a convolution a matrix product.
    Provokes: The decomposition of im2col indexes with padding.
    """

    def before(x, k): return F.conv2d(x, k, padding=1)

    def after(x, k):
        columns = F.unfold(x, 3, padding=1)
        return (k.flatten(1) @ columns).view(x.shape[0], k.shape[0], x.shape[2], x.shape[3])


@rule(args={"x": "n c h w", "k": "o c 3 3"}, where=["n * c * h * w * o > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation"), targets=("ilp", "layout_opt"))
class fusion_conv_channels_last:
    """Convolves in channels_last memory.

    Why equivalent: Only memory order changes.
    """

    def before(x, k): return F.conv2d(x, k, padding=1)

    def after(x, k): return F.conv2d(x.to(memory_format=torch.channels_last), k, padding=1).contiguous()


@rule(args={"x": "n c h w"}, where=["h % 2 == 0", "w % 2 == 0", "x.numel > 0"], dtypes=SINGLE,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iod", "kc", "avg_pool2d"))
class fusion_avg_pool_as_mean:
    """Average-pools 2x2 blocks by a mean over split dimensions.

    Why equivalent: Blocks do not overlap.
    """

    def before(x): return F.avg_pool2d(x, 2)

    def after(x):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))


@rule(args={"x": "n c h w"}, where=["h % 2 == 0", "w % 2 == 0", "x.numel > 0"], dtypes=SINGLE,
      claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"), targets=("iod", "kc", "max_pool2d"))
class fusion_max_pool_as_amax:
    """Max-pools 2x2 blocks by amax over split dimensions.

    Why equivalent: Blocks do not overlap.
    Limits: The gradient of ties differs.
    """

    def before(x): return F.max_pool2d(x, 2)

    def after(x):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).amax((3, 5))


@rule(args={"x": "...", "y": "..."},
      where=["type(d) is int", "x.ndim >= 1", "x.ndim == y.ndim", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "kc", "sink_cat_after_pointwise"))
class fusion_relu_of_cat:
    """Applies relu to the parts instead of the cat.

    Why equivalent: The operation is pointwise.
    Provokes: ``sink_cat_after_pointwise`` does the opposite.
    """

    def before(x, y, d): return F.relu(torch.cat([x, y], d))

    def after(x, y, d): return torch.cat([F.relu(x), F.relu(y)], d)


@rule(args={"x": "...", "y": "..."},
      where=["type(d) is int", "x.ndim >= 1", "x.ndim == y.ndim", "-x.ndim <= d < x.ndim"], scalars={"d": None},
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("ugo", "kc", "sink_cat_after_pointwise"))
class fusion_cat_of_relu:
    """Applies relu to the cat instead of the parts.

    Why equivalent: The operation is pointwise.
    """

    def before(x, y, d): return torch.cat([F.relu(x), F.relu(y)], d)

    def after(x, y, d): return F.relu(torch.cat([x, y], d))


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "x.ndim >= 1", "x.shape[0] >= 2"],
      dtypes=FLOATS + INTS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "cat"))
class fusion_add_in_rows:
    """Adds head and tail rows separately and concatenates.

    Why equivalent: The operation is pointwise.
    Provokes: cat of two kernels' results, of which one is a single row.
    """

    def before(x, y): return x + y

    def after(x, y): return torch.cat([x[:1] + y[:1], x[1:] + y[1:]])


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "x.ndim >= 1", "x.shape[-1] >= 2"],
      dtypes=FLOATS + INTS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class fusion_mul_in_columns:
    """Multiplies even and odd columns separately and interleaves them.

    Why equivalent: The operation is pointwise.
    Provokes: Step-2 loads and two strided slice_scatters that cover the buffer.
    """

    def before(x, y): return x * y

    def after(x, y):
        out = torch.zeros_like(x)
        out[..., ::2] = x[..., ::2] * y[..., ::2]
        out[..., 1::2] = x[..., 1::2] * y[..., 1::2]
        return out


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FLOATS + INTS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "kc", "foreach"))
class fusion_foreach_add:
    """Adds through a foreach list of two pairs.

    Why equivalent: Pairs are independent.
    Provokes: Foreach kernels fuse horizontally.
    """

    def before(x, y): return x + y

    def after(x, y): return torch._foreach_add([x, y], [y, x])[0]


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FLOATS + INTS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "kc", "foreach"))
class fusion_foreach_add_in_place:
    """Adds in place through a foreach list of fresh clones.

    Why equivalent: Clones are distinct memory.
    """

    def before(x, y): return x + y

    def after(x, y):
        a, b = x.clone(), y.clone()
        torch._foreach_add_([a, b], [y, x])
        return a
