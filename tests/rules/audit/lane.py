"""The same function evaluated on another layout or in another lane, claimed to give the same bits."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
WIDE = ("float32", "float64")
LOW = ("float16", "bfloat16")
B = Level.BIT_EXACT
KEPT = ("dtype", "mutation")


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, preserves=KEPT)
class lane_sigmoid_of_strided:
    """Takes sigmoid of a view with a stride of two."""

    def before(x):
        return torch.sigmoid(x)

    def after(x):
        return torch.sigmoid(torch.stack([x, x], -1)[..., 0])


@rule(args={"x": "m n"}, where=["1 <= n <= 16"], dtypes=("float32",), claim=B, preserves=KEPT)
class lane_sinh_by_columns:
    """Takes sinh column by column."""

    def before(x):
        return torch.sinh(x)

    def after(x):
        return torch.stack([c.sinh() for c in x.unbind(-1)], -1)


@rule(args={"x": "n"}, where=["n >= 2"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_exp2_first_alone:
    """Takes exp2 of the first element and of the others."""

    def before(x):
        return torch.exp2(x)

    def after(x):
        return torch.cat([x[:1].exp2(), x[1:].exp2()])


@rule(args={"x": "..."}, dtypes=LOW, claim=B, preserves=KEPT)
class lane_gelu_low_of_strided:
    """Takes gelu of 16-bit values through a strided view."""

    def before(x):
        return F.gelu(x)

    def after(x):
        return F.gelu(torch.stack([x, x], -1)[..., 1])


@rule(args={"x": "..."}, dtypes=LOW, claim=B, preserves=KEPT)
class lane_rsqrt_low_of_strided:
    """Takes rsqrt of 16-bit values through a strided view."""

    def before(x):
        return torch.rsqrt(x)

    def after(x):
        return torch.rsqrt(torch.stack([x, x], -1)[..., 0])


@rule(args={"x": "n"}, where=["1 <= n <= 40"], dtypes=("float32",), claim=B, preserves=KEPT)
class lane_gelu_tanh_one_by_one:
    """Takes gelu (tanh) of each element alone."""

    def before(x):
        return F.gelu(x, approximate="tanh")

    def after(x):
        return torch.cat([F.gelu(c, approximate="tanh") for c in x.split(1)])


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_softplus_then_every_second:
    """Slices after softplus rather than before."""

    def before(x):
        return F.softplus(x[..., ::2])

    def after(x):
        return F.softplus(x)[..., ::2]


@rule(args={"x": "m n"}, where=["n >= 1"], dtypes=("float32",), claim=B, preserves=KEPT)
class lane_mish_then_column:
    """Selects the column before mish."""

    def before(x):
        return F.mish(x).select(1, 0)

    def after(x):
        return F.mish(x.select(1, 0))


@rule(args={"x": "m n", "y": "m n"}, dtypes=WIDE, claim=B, preserves=KEPT)
class lane_atan2_transposed_operand:
    """Takes atan2 with one operand copied to the other order."""

    def before(x, y):
        return torch.atan2(x, y)

    def after(x, y):
        return torch.atan2(x.t().contiguous().t(), y.contiguous())


@rule(args={"x": "... n"}, dtypes=WIDE, claim=B, preserves=KEPT)
class lane_sum_of_flipped:
    """Sums backwards."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.flip(-1).sum(-1)


@rule(args={"x": "m n"}, where=["m * n > 0"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_softmax_over_other_axis:
    """Takes softmax over the first axis of the transposed tensor."""

    def before(x):
        return x.softmax(-1)

    def after(x):
        return x.t().contiguous().softmax(0).t()


@rule(args={"a": "m k", "b": "k n"}, where=["m >= 1"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_product_of_one_row:
    """Multiplies one row only."""

    def before(a, b):
        return (a @ b).select(0, 0)

    def after(a, b):
        return a.select(0, 0) @ b


@rule(args={"a": "m k", "v": "k"}, dtypes=("float32", "float64", "float16"), claim=B, preserves=KEPT)
class lane_mv_as_product_and_sum:
    """Takes a matrix-vector product by products and sums."""

    def before(a, v):
        return a @ v

    def after(a, v):
        return (a * v).sum(-1)


@rule(args={"x": "m n"}, dtypes=WIDE, claim=B, preserves=KEPT)
class lane_sum_of_transposed_copy:
    """Sums over the first axis of a transposed copy."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.t().contiguous().sum(0)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=LOW, claim=B, preserves=KEPT)
class lane_axpy_low_of_strided:
    """Adds 0.3 y through strided views in 16 bits."""

    def before(x, y):
        return torch.add(x, y, alpha=0.3)

    def after(x, y):
        both = torch.stack([x, y], -1)
        return torch.add(both[..., 0], both[..., 1], alpha=0.3)


@rule(args={"x": "n", "y": "n"}, where=["n >= 1"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_logaddexp_by_element:
    """Takes logaddexp and selects, or selects first."""

    def before(x, y):
        return torch.logaddexp(x, y).select(0, 0)

    def after(x, y):
        return torch.logaddexp(x.select(0, 0), y.select(0, 0))


@rule(
    args={"c": "m n", "a": "m k", "b": "k n"},
    where=["k >= 1"],
    dtypes=("float16", "bfloat16", "float64"),
    claim=B,
    preserves=KEPT,
)
class lane_addmm_in_two:
    """Adds the bias after the product."""

    def before(c, a, b):
        return torch.addmm(c, a, b)

    def after(c, a, b):
        return c + a @ b


@rule(args={"x": "m n"}, dtypes=("float32", "float16", "bfloat16"), claim=B, preserves=KEPT)
class lane_prod_of_column_major:
    """Takes products of rows that lie apart in memory."""

    def before(x):
        return x.prod(-1)

    def after(x):
        return x.t().contiguous().t().prod(-1)


@rule(args={"x": "n"}, where=["n >= 1"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_cosh_of_scalar:
    """Takes cosh of one element."""

    def before(x):
        return torch.cosh(x).select(0, 0)

    def after(x):
        return torch.cosh(x.select(0, 0))


@rule(args={"x": "m n"}, where=["n >= 8"], dtypes=WIDE, claim=B, preserves=KEPT)
class lane_sum_of_first_columns:
    """Narrows before it sums over the first axis."""

    def before(x):
        return x.sum(0).narrow(0, 0, 5)

    def after(x):
        return x.narrow(1, 0, 5).sum(0)


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, preserves=KEPT)
class lane_atanh_of_repeated:
    """Takes atanh of a strided copy."""

    def before(x):
        return torch.atanh(x)

    def after(x):
        return torch.atanh(x.unsqueeze(-1).repeat((1,) * x.ndim + (3,))[..., 1])
