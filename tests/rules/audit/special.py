"""NaN, infinities and the sign of zero: guards dropped or added."""

import math

import torch

from fxmorph.model import FLOATS, Level
from fxmorph.rules import rule

F = torch.nn.functional
WIDE = ("float32", "float64")
B = Level.BIT_EXACT
KEPT = ("dtype", "mutation")


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class special_self_difference:
    """Folds x - x to zeros."""

    def before(x):
        return x - x

    def after(x):
        return torch.zeros_like(x)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class special_product_with_zero:
    """Folds x * 0 to zeros."""

    def before(x):
        return x * 0

    def after(x):
        return torch.zeros_like(x)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class special_equal_to_itself:
    """Folds x == x to true."""

    def before(x):
        return x == x

    def after(x):
        return torch.ones_like(x, dtype=torch.bool)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=WIDE,
    claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
    preserves=KEPT,
)
class special_maximum_by_select:
    """Takes the maximum by x > y."""

    def before(x, y):
        return torch.maximum(x, y)

    def after(x, y):
        return torch.where(x > y, x, y)


@rule(args={"x": "..."}, site="value", dtypes=FLOATS, claim=B, preserves=KEPT)
class special_add_zero:
    """Adds 0.0."""

    def after(x):
        return x + 0.0


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class special_neg_as_zero_minus:
    """Negates by 0 - x."""

    def before(x):
        return -x

    def after(x):
        return 0 - x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FLOATS, claim=B, preserves=KEPT)
class special_not_less:
    """Turns a comparison round."""

    def before(x, y):
        return ~(x < y)

    def after(x, y):
        return x >= y


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=WIDE,
    claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
    preserves=KEPT,
)
class special_fmax_as_maximum:
    """Takes fmax by maximum."""

    def before(x, y):
        return torch.fmax(x, y)

    def after(x, y):
        return torch.maximum(x, y)


@rule(
    args={"x": "...", "m": "..."},
    where=["m.dtype == 'bool'", "x.floating", "x.shape == m.shape"],
    dtypes=("float32", "float64", "bool"),
    mixed=True,
    claim=B,
    preserves=KEPT,
)
class special_masked_fill_as_product:
    """Zeroes by a product with the complement."""

    def before(x, m):
        return x.masked_fill(m, 0)

    def after(x, m):
        return x * ~m


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class special_abs_by_comparison:
    """Takes the absolute value by a select."""

    def before(x):
        return x.abs()

    def after(x):
        return torch.where(x < 0, -x, x)


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, preserves=KEPT)
class special_abs_as_root_of_square:
    """Takes the absolute value as the root of the square."""

    def before(x):
        return x.abs()

    def after(x):
        return (x * x).sqrt()


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=WIDE, claim=B, preserves=KEPT)
class special_guarded_row_maximum:
    """Subtracts the row maximum, with a guard for rows of -inf."""

    def before(x):
        return x - x.amax(-1, keepdim=True)

    def after(x):
        m = x.amax(-1, keepdim=True)
        return x - m.masked_fill(m == -math.inf, 0)


@rule(args={"x": "..."}, site="value", dtypes=FLOATS, claim=B, preserves=KEPT)
class special_sign_times_abs:
    """Puts sign and absolute value together again."""

    def after(x):
        return torch.sign(x) * x.abs()


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, assumes=("nonzero",), preserves=KEPT)
class special_self_quotient:
    """Folds x / x to ones."""

    def before(x):
        return x / x

    def after(x):
        return torch.ones_like(x)


@rule(args={"x": "..."}, dtypes=("float32",), claim=B, preserves=KEPT)
class special_isfinite_below_limit:
    """Takes isfinite by a comparison with the largest number, written in three digits."""

    def before(x):
        return torch.isfinite(x)

    def after(x):
        return x.abs() <= 3.40e38


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=FLOATS,
    claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
    preserves=KEPT,
)
class special_clamp_by_tensor_as_where:
    """Clamps below by a tensor through a select."""

    def before(x, y):
        return torch.clamp(x, min=y)

    def after(x, y):
        return torch.where(x < y, y, x)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEPT)
class special_relu_as_mask_product:
    """Takes relu as the product with the positive mask."""

    def before(x):
        return F.relu(x)

    def after(x):
        return x * (x > 0)


@rule(
    args={"x": "... n", "m": "... n"},
    where=["m.dtype == 'bool'", "x.dtype == 'float32'", "x.shape == m.shape", "n >= 1"],
    dtypes=("float32", "bool"),
    mixed=True,
    assumes=("finite",),
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class special_mask_by_large_negative:
    """Masks attention scores with -1e4 in place of -inf."""

    def before(x, m):
        return x.masked_fill(m, -math.inf).softmax(-1)

    def after(x, m):
        return x.masked_fill(m, -1e4).softmax(-1)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FLOATS, claim=B, preserves=KEPT)
class special_negated_difference:
    """Turns a negated difference round."""

    def before(x, y):
        return -(x - y)

    def after(x, y):
        return y - x


@rule(args={"x": "..."}, dtypes=FLOATS, claim=B, preserves=KEPT)
class special_relu_by_positive_select:
    """Takes relu by x > 0 with zero otherwise."""

    def before(x):
        return F.relu(x)

    def after(x):
        return torch.where(x > 0, x, 0.0)


@rule(args={"x": "..."}, dtypes=WIDE, claim=B, preserves=KEPT)
class special_signbit_by_comparison:
    """Says whether x is negative by a comparison."""

    def before(x):
        return torch.signbit(x)

    def after(x):
        return x < 0
