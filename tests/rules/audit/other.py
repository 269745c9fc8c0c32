"""Accumulation, empty reductions, ddof, keepdim, broadcasting, negative axes, complex, bool, integers, effects."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
WIDE = ("float32", "float64")
ANY = FLOATS + INTS + ("bool",)
B = Level.BIT_EXACT
E = Level.EXACT_REAL
FIN = ("finite",)
KEPT = ("dtype", "mutation")


@rule(args={"x": "m n"}, where=["1 <= n <= 64"], dtypes=("float16", "bfloat16"), claim=B, assumes=FIN, preserves=KEPT)
class other_low_sum_by_additions:
    """Sums 16-bit columns one by one."""

    def before(x):
        return x.sum(-1)

    def after(x):
        total = x[:, 0]
        for k in range(1, x.shape[1]):
            total = total + x[:, k]
        return total


@rule(args={"x": "... n"}, where=["n >= 2"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class other_population_variance:
    """Takes the variance from the mean of squared deviations."""

    def before(x):
        return x.var(-1)

    def after(x):
        return (x - x.mean(-1, keepdim=True)).square().mean(-1)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class other_variance_by_moments:
    """Takes the variance as the mean of squares less the square of the mean."""

    def before(x):
        return x.var(-1, correction=0)

    def after(x):
        return x.square().mean(-1) - x.mean(-1).square()


@rule(args={"x": "n n"}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class other_lost_keepdim:
    """Centres rows by sums without keepdim."""

    def before(x):
        return x - x.sum(-1, keepdim=True)

    def after(x):
        return x - x.sum(-1)


@rule(
    args={"x": "..."},
    where=["type(d) is int", "-x.ndim - 1 <= d <= x.ndim"],
    scalars={"d": None},
    dtypes=ANY,
    claim=Level.INDEX_EXACT,
    preserves=KEPT,
)
class other_unsqueeze_negative:
    """Normalises a negative axis by adding the rank."""

    def before(x, d):
        return x.unsqueeze(d)

    def after(x, d):
        return x.unsqueeze(d if d >= 0 else max(d + x.ndim, 0))


@rule(
    args={"x": "m n", "y": "... n"},
    where=["y.ndim == 2", "y.shape[0] in (1, m)"],
    dtypes=(*WIDE, "int64"),
    claim=E,
    assumes=FIN,
    preserves=KEPT,
)
class other_sum_over_broadcast:
    """Sums the operands of a sum each for itself, over all rows."""

    def before(x, y):
        return (x + y).sum(0)

    def after(x, y):
        return x.sum(0) + y.sum(0)


@rule(args={"x": "... n"}, dtypes=("int32", "int16", "int8", "uint8"), claim=B, preserves=KEPT)
class other_sum_keeps_dtype:
    """Sums integers in their own dtype."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.sum(-1, dtype=x.dtype)


@rule(args={"x": "... n"}, dtypes=("int64",), claim=B, preserves=KEPT)
class other_sum_through_int32:
    """Sums int64 in int32."""

    def before(x):
        return x.sum(-1)

    def after(x):
        return x.sum(-1, dtype=torch.int32).to(torch.int64)


@rule(args={"x": "..."}, dtypes=("int8", "int16", "int32", "int64"), claim=B, preserves=KEPT)
class other_abs_is_nonnegative:
    """Folds abs(x) >= 0 to true."""

    def before(x):
        return x.abs() >= 0

    def after(x):
        return torch.ones_like(x, dtype=torch.bool)


@rule(args={"x": "... n"}, dtypes=("bool",), claim=B, preserves=KEPT)
class other_any_by_uint8_sum:
    """Takes any as a sum of bytes that is not 0."""

    def before(x):
        return x.any(-1)

    def after(x):
        return x.to(torch.uint8).sum(-1, dtype=torch.uint8) > 0


@rule(
    args={"x": "n", "y": ""},
    where=["x.dtype in ('float16', 'bfloat16')", "y.dtype == 'float32'"],
    dtypes=("float16", "bfloat16", "float32"),
    mixed=True,
    claim=B,
    preserves=KEPT,
)
class other_scalar_tensor_expanded:
    """Expands a 0-dim factor to the shape of x."""

    def before(x, y):
        return x * y

    def after(x, y):
        return x * y.expand(x.shape)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("int32", "int64"), claim=B, preserves=KEPT)
class other_floor_division_corrected:
    """Takes floor division from the truncating one, less one where the signs differ."""

    def before(x, y):
        return torch.div(x, y.abs() + 1, rounding_mode="floor")

    def after(x, y):
        return torch.div(x, y.abs() + 1, rounding_mode="trunc") - (x < 0).to(x.dtype)


@rule(args={"x": "... n"}, dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT)
class other_mean_with_guarded_count:
    """Takes the mean as the sum divided by the length, at least one."""

    def before(x):
        return torch.nan_to_num(x.mean(-1), nan=-1.0)

    def after(x):
        return x.sum(-1) / max(x.shape[-1], 1)


@rule(args={"x": "..."}, where=["not x.requires_grad"], dtypes=FLOATS, claim=B, preserves=KEPT)
class other_relu_of_the_argument:
    """Takes relu in place, since nobody is seen to read x again."""

    def before(x):
        return F.relu(x)

    def after(x):
        return F.relu_(x)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("float16", "float32"),
    claim=B,
    assumes=FIN,
    preserves=KEPT,
)
class other_midpoint_of_halves:
    """Takes the midpoint as the sum of halves."""

    def before(x, y):
        return (x + y) * 0.5

    def after(x, y):
        return x * 0.5 + y * 0.5


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=WIDE,
    claim=E,
    assumes=("finite", "nonzero"),
    preserves=KEPT,
)
class other_angle_by_atan:
    """Takes the angle of a complex number as the arctangent of the quotient."""

    def before(x, y):
        return torch.complex(x, y).angle()

    def after(x, y):
        return torch.atan(y / x)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=WIDE, claim=B, assumes=FIN, preserves=KEPT)
class other_complex_square_modulus:
    """Takes the real part of z * z as the squared modulus."""

    def before(x, y):
        return (torch.complex(x, y) * torch.complex(x, y)).real

    def after(x, y):
        return x * x + y * y


@rule(
    args={"x": "n c h w"}, where=["h >= 3", "w >= 3", "x.numel > 0"], dtypes=WIDE, claim=E, assumes=FIN, preserves=KEPT
)
class other_average_pool_excludes_padding:
    """Averages over padded windows and leaves the padding out of the count."""

    def before(x):
        return F.avg_pool2d(x, 3, 1, 1)

    def after(x):
        return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape", "not x.requires_grad", "not y.requires_grad", "x.ndim >= 1"],
    dtypes=("float32",),
    claim=B,
    assumes=FIN,
    preserves=KEPT,
)
class other_compare_by_bits:
    """Compares floats by their bits as integers, which keep the order."""

    def before(x, y):
        return x < y

    def after(x, y):
        return x.view(torch.int32) < y.view(torch.int32)


@rule(args={"x": "..."}, dtypes=("uint8",), claim=B, preserves=KEPT)
class other_uint8_neg_then_compare:
    """Folds -x <= x for unsigned bytes."""

    def before(x):
        return -x <= x

    def after(x):
        return x >= 0


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=("int64", "int32"), claim=B, preserves=KEPT)
class other_float_mean_of_integers:
    """Takes the mean of integers in float32 from converted elements."""

    def before(x):
        return x.sum(-1).to(torch.float64) / x.shape[-1]

    def after(x):
        return (x.to(torch.float32).sum(-1) / x.shape[-1]).to(torch.float64)


@rule(args={"x": "..."}, where=["x.ndim >= 1"], dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEPT)
class other_flatten_of_permuted_view:
    """Flattens the transposed view, since the elements are the same."""

    def before(x):
        return x.transpose(0, -1).reshape(-1)

    def after(x):
        return x.reshape(-1)


@rule(args={"x": "m n", "y": "m n"}, dtypes=FLOATS, claim=B, preserves=("dtype", "stride"))
class other_sum_swapped_keeps_strides:
    """Adds in the other order (the strides follow the first operand)."""

    def before(x, y):
        return x + y

    def after(x, y):
        return y + x


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class other_reshape_copies:
    """Clones where a view was returned."""

    def before(x):
        return x.view_as(x)

    def after(x):
        return x.clone()


@rule(args={"x": "..."}, dtypes=WIDE, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "gradient"))
class other_relu_gradient_at_zero:
    """Takes relu by clamp and promises the gradient."""

    def before(x):
        return F.relu(x)

    def after(x):
        return x.clamp(min=0)
