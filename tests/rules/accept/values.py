"""Rules that are right, some of them only just.  Each says what makes it so; WITNESS holds awkward values."""

import torch

from fxmorph.model import FLOATS, Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
KEEPS = ("dtype", "gradient")
ODD = (1.0, -0.0, 0.0, INF, -INF, NAN, -2.5, 3e38, 1e-45)


def floats(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_subtract_zero:
    """x - 0 is x for every x, -0.0 included."""

    def before(x): return x - 0.0
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class right_add_zero_but_for_the_sign:
    """x + 0 is x but for -0.0, which the claim leaves open."""

    def before(x): return x + 0.0
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_times_one:
    """Multiplying by one is exact."""

    def before(x): return x * 1.0
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS, assumes=("finite",))
class right_difference_with_itself:
    """x - x is zero for finite x, which the rule assumes."""

    def before(x): return x - x
    def after(x): return torch.zeros_like(x) * x


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_floor_division_as_shift:
    """Floor division by two and an arithmetic shift both round down."""

    def before(x): return torch.div(x, 2, rounding_mode="floor")
    def after(x): return x >> 1


@rule(args={"x": "m n"}, preserves=KEEPS)
class right_softmax_of_transpose:
    """Rows of the transpose are columns."""

    def before(x): return x.softmax(1)
    def after(x): return x.mT.softmax(0).mT


@rule(args={"a": "m k", "b": "k n"}, preserves=KEEPS)
class right_product_of_transposes:
    """(b^T a^T)^T is ab."""

    def before(a, b): return a @ b
    def after(a, b): return (b.mT @ a.mT).mT


@rule(args={"x": "n"}, where=["n >= 3"], preserves=KEEPS)
class right_mean_of_weighted_chunks:
    """Chunk means weighted by chunk sizes give the mean."""

    def before(x): return x.mean()
    def after(x): return (x[:1].mean() + x[1:].mean() * (x.shape[0] - 1)) / x.shape[0]


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT)
class right_not_less_equal_as_swapped:
    """x <= y and y >= x agree on NaN too."""

    def before(x, y): return torch.logical_not(x <= y)
    def after(x, y): return torch.logical_not(y >= x)


@rule(args={"x": "m n"}, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_roll_as_cat:
    """Rolling by one puts the last column first."""

    def before(x): return torch.roll(x, 1, 1)
    def after(x): return torch.cat([x[:, -1:], x[:, :-1]], 1)


@rule(args={"x": "..."}, dtypes=("float16", "bfloat16"), claim=Level.BIT_EXACT, preserves=KEEPS)
class right_detour_through_float32:
    """float32 holds every value of the 16-bit types."""

    def before(x): return x.abs()
    def after(x): return x.to(torch.float32).abs().to(x.dtype)


@rule(args={"x": "..."}, dtypes=("float16", "bfloat16"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_sum_in_float32_rounded_once:
    """The exact sum of two 16-bit values rounded through float32 is rounded right (24 >= 2 * 11 + 2)."""

    def before(x): return x + x.flip(0)
    def after(x): return (x.float() + x.flip(0).float()).to(x.dtype)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class right_root_of_square_as_abs:
    """Multiplication by +-1 is exact."""

    def before(x): return torch.abs(x)
    def after(x): return torch.where(x < 0, x * -1, x).abs()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN)
class right_relu_keeps_nan:
    """x <= 0 is false for NaN, so where keeps it; of -0.0 relu keeps the sign."""

    def before(x): return torch.relu(x)
    def after(x): return torch.where(x <= 0, torch.zeros_like(x), x)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=KEEPS)
class right_addition_commutes:
    """IEEE addition commutes."""

    def before(x, y): return x + y
    def after(x, y): return y + x


@rule(args={"a": "n", "b": "n", "c": "n"}, preserves=KEEPS)
class right_reassociation_over_the_reals:
    """Addition is associative over the reals, which is all that is claimed."""

    def before(a, b, c): return (a + b) + c
    def after(a, b, c): return a + (b + c)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_division_by_a_power_of_two:
    """Reciprocals of powers of two are exact."""

    def before(x): return x / 4
    def after(x): return x * 0.25


@rule(args={"x": "..."}, dtypes=("int32", "int64"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_doubling_as_shift:
    """Both wrap around alike."""

    def before(x): return x * 2
    def after(x): return x << 1


@rule(args={"x": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT)
class right_uint8_compared_as_int:
    """int16 holds every difference of two uint8."""

    def before(x): return x < 5
    def after(x): return (x.to(torch.int16) - 5) < 0


@rule(args={"x": "m n"}, claim=Level.INDEX_EXACT, preserves=KEEPS)
class right_transpose_by_einsum:
    """The order of dimensions, nothing else."""

    def before(x): return x.mT.clone()
    def after(x): return torch.einsum("ij->ji", x).clone()


@rule(args={"x": "n"}, where=["n >= 2"], claim=Level.BIT_EXACT)
class right_maximum_of_overlapping_halves:
    """An element may be counted twice by a maximum."""

    def before(x): return x.amax(0)
    def after(x): return torch.maximum(x[:-1].amax(0), x[1:].amax(0))


@rule(args={"x": "... n"}, where=["n >= 2"], preserves=KEEPS, dtypes=("float32", "float64"))
class right_variance_by_definition:
    """Sum of squared deviations over n - 1."""

    def before(x): return x.var(-1)
    def after(x): return (x - x.mean(-1, keepdim=True)).pow(2).sum(-1) / (x.shape[-1] - 1)


@rule(args={"x": "..."}, preserves=KEEPS)
class right_gelu_by_erf:
    """The definition."""

    def before(x): return F.gelu(x)
    def after(x): return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


@rule(args={"x": "... n"}, where=["n >= 1"], preserves=KEEPS)
class right_logsumexp_shifted:
    """The maximum is taken off and added back."""

    def before(x): return x.logsumexp(-1)
    def after(x): return (x - x.amax(-1, keepdim=True)).exp().sum(-1).log() + x.amax(-1)


@rule(args={"x": "n"}, where=["n >= 2"], dtypes=("float32",), claim=Level.INDEX_EXACT)
class right_argmax_of_expanded:
    """The same row twice has the same first maximum."""

    def before(x): return x.argmax(0)
    def after(x): return x.expand(2, x.shape[0]).argmax(1)[1]


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=KEEPS, site="value")
class right_value_flipped_twice:
    """flip is its own inverse."""

    def before(x): return x
    def after(x): return x.flip(0).flip(0) if x.ndim else x.clone()


WITNESS = {
    "right_subtract_zero": lambda: {"x": floats(*ODD)},
    "right_add_zero_but_for_the_sign": lambda: {"x": floats(*ODD)},
    "right_times_one": lambda: {"x": floats(*ODD)},
    "right_difference_with_itself": lambda: {"x": floats(1.0, -0.0, -3.0)},
    "right_floor_division_as_shift": lambda: {"x": torch.tensor([4, 3, -3, -(2**62)])},
    "right_softmax_of_transpose": lambda: {"x": normal(3, 4)},
    "right_product_of_transposes": lambda: {"a": normal(3, 4), "b": normal(4, 5)},
    "right_mean_of_weighted_chunks": lambda: {"x": normal(5)},
    "right_not_less_equal_as_swapped": lambda: {"x": floats(1.0, NAN, NAN), "y": floats(2.0, 1.0, NAN)},
    "right_roll_as_cat": lambda: {"x": normal(3, 4)},
    "right_detour_through_float32": lambda: {"x": floats(*ODD, dtype=torch.float16)},
    "right_sum_in_float32_rounded_once": lambda: {"x": normal(500).half()},
    "right_root_of_square_as_abs": lambda: {"x": floats(*ODD)},
    "right_relu_keeps_nan": lambda: {"x": floats(*ODD)},
    "right_addition_commutes": lambda: {"x": floats(*ODD), "y": floats(*reversed(ODD))},
    "right_reassociation_over_the_reals": lambda: {"a": normal(99), "b": normal(99) * 3, "c": normal(99) + 1},
    "right_division_by_a_power_of_two": lambda: {"x": floats(*ODD)},
    "right_doubling_as_shift": lambda: {"x": torch.tensor([1, -5, 2**63 - 1])},
    "right_uint8_compared_as_int": lambda: {"x": torch.tensor([3, 7, 255], dtype=torch.uint8)},
    "right_transpose_by_einsum": lambda: {"x": normal(2, 3)},
    "right_maximum_of_overlapping_halves": lambda: {"x": floats(*ODD)},
    "right_variance_by_definition": lambda: {"x": normal(3, 5)},
    "right_gelu_by_erf": lambda: {"x": normal(50)},
    "right_logsumexp_shifted": lambda: {"x": normal(3, 5)},
    "right_argmax_of_expanded": lambda: {"x": floats(2.0, 1.0, 2.0)},
    "right_value_flipped_twice": lambda: {"x": normal(3, 5)},
}
