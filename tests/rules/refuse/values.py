"""Rules that look right and change values.  Each says why it is wrong; WITNESS holds values that show it."""

import torch

from fxmorph.model import FLOATS, Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
KEEPS = ("dtype", "gradient")


def floats(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_add_zero_dropped:
    """-0.0 + 0 is +0.0, so x + 0 is not x bit for bit (x - 0 is)."""

    def before(x): return x + 0.0
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_difference_with_itself_is_zero:
    """inf - inf and NaN - NaN are NaN; nothing here says that x is finite."""

    def before(x): return x - x
    def after(x): return torch.zeros_like(x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class wrong_times_zero_is_zero:
    """Infinity and NaN times zero are NaN (pytorch PR 186379)."""

    def before(x): return x * 0.0
    def after(x): return torch.zeros_like(x)


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_truncating_division_as_shift:
    """A shift rounds down; trunc division rounds towards zero, so negative odd numbers differ."""

    def before(x): return torch.div(x, 2, rounding_mode="trunc")
    def after(x): return x >> 1


@rule(args={"x": "..."}, dtypes=("int64",), claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_remainder_as_fmod:
    """remainder takes the sign of the divisor, fmod that of the dividend."""

    def before(x): return torch.remainder(x, 3)
    def after(x): return torch.fmod(x, 3)


@rule(args={"x": "m n"}, preserves=KEEPS)
class wrong_softmax_over_the_other_dimension:
    """Columns are not rows."""

    def before(x): return x.softmax(1)
    def after(x): return x.softmax(0)


@rule(args={"a": "k k", "b": "k k"}, preserves=KEEPS)
class wrong_product_of_transposes:
    """(xy)^T is y^T x^T: the factors must be swapped (PolyJuice's unsound rule)."""

    def before(a, b): return a @ b
    def after(a, b): return (a.mT @ b.mT).mT


@rule(args={"x": "n"}, where=["n >= 3"], preserves=KEEPS)
class wrong_mean_of_unequal_chunk_means:
    """Chunks of unequal size weigh unequally: the mean of their means is not the mean."""

    def before(x): return x.mean()
    def after(x): return (x[:1].mean() + x[1:].mean()) / 2


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT)
class wrong_not_less_equal_as_greater:
    """With NaN neither x <= y nor x > y holds."""

    def before(x, y): return torch.logical_not(x <= y)
    def after(x, y): return x > y


@rule(args={"x": "m n"}, where=["m > 1", "n > 1"], claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_roll_of_the_flattened_tensor:
    """Rolling the flattened tensor carries elements over row ends; rolling a dimension does not."""

    def before(x): return torch.roll(x, 1, 1)
    def after(x): return torch.roll(x.reshape(-1), 1, 0).reshape(x.shape)


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_half_through_bfloat16:
    """bfloat16 has 8 bits of significand, float16 has 11: rounding twice loses three of them."""

    def before(x): return x.to(torch.float16)
    def after(x): return x.to(torch.bfloat16).to(torch.float16)


@rule(args={"x": "..."}, preserves=KEEPS)
class wrong_root_of_square_is_identity:
    """sqrt(x * x) is |x|."""

    def before(x): return (x * x).sqrt()
    def after(x): return x * 1


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_relu_as_where:
    """NaN > 0 is false, so where gives 0 where relu gives NaN."""

    def before(x): return torch.relu(x)
    def after(x): return torch.where(x > 0, x, torch.zeros_like(x))


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class wrong_maximum_as_fmax:
    """maximum passes NaN on, fmax drops it."""

    def before(x): return torch.maximum(x, torch.zeros_like(x))
    def after(x): return torch.fmax(x, torch.zeros_like(x))


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class wrong_round_as_floor_of_half_more:
    """round takes ties to even; floor(x + 0.5) takes them up."""

    def before(x): return torch.round(x)
    def after(x): return torch.floor(x + 0.5)


@rule(args={"a": "n", "b": "n", "c": "n"}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_reassociation_claimed_exact:
    """Floating-point addition is not associative."""

    def before(a, b, c): return (a + b) + c
    def after(a, b, c): return a + (b + c)


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_division_as_multiplication_claimed_exact:
    """1/3 is not a power of two: x / 3 and x * (1/3) round differently."""

    def before(x): return x / 3
    def after(x): return x * (1 / 3)


@rule(args={"x": "..."}, dtypes=("int32",), claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_halving_before_adding:
    """(x + x) // 2 is x except where x + x wraps around."""

    def before(x): return torch.floor_divide(x + x, 2)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT)
class wrong_uint8_difference_compared:
    """x - y < 0 never holds for uint8: differences wrap."""

    def before(x): return x < 5
    def after(x): return (x - 5) < 0


@rule(args={"x": "m n"}, where=["m != n"], claim=Level.INDEX_EXACT, preserves=KEEPS)
class wrong_reshape_as_transpose:
    """A reshape keeps the order of elements, a transpose does not."""

    def before(x): return x.mT.clone()
    def after(x): return x.reshape(x.shape[1], x.shape[0]).clone()


@rule(args={"x": "n"}, where=["n >= 2"], claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_maximum_over_an_overlapping_half:
    """The split leaves the last element out."""

    def before(x): return x.amax(0)
    def after(x): return torch.maximum(x[:-1].amax(0), x[0])


@rule(args={"x": "... n"}, where=["n >= 2"], preserves=KEEPS)
class wrong_variance_without_correction:
    """var divides by n - 1, the mean of squares by n."""

    def before(x): return x.var(-1)
    def after(x): return (x - x.mean(-1, keepdim=True)).pow(2).mean(-1)


@rule(args={"x": "..."}, preserves=KEEPS)
class wrong_gelu_is_its_tanh_form:
    """The tanh form is an approximation: it differs in the fourth digit."""

    def before(x): return F.gelu(x)
    def after(x): return F.gelu(x, approximate="tanh")


@rule(args={"x": "... n"}, preserves=KEEPS)
class wrong_logsumexp_without_log:
    """The maximum has to be added back."""

    def before(x): return x.logsumexp(-1)
    def after(x): return (x - x.amax(-1, keepdim=True)).exp().sum(-1).log()


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_dtype_promised:
    """The result is float64 whatever x is."""

    def before(x): return x * 2
    def after(x): return x.double() * 2


@rule(args={"x": "n"}, claim=Level.BIT_EXACT)
class wrong_shape:
    """keepdim adds a dimension."""

    def before(x): return x.amax(0)
    def after(x): return x.amax(0, keepdim=True)


@rule(args={"x": "n"}, where=["n >= 2"], dtypes=("float32",), claim=Level.INDEX_EXACT)
class wrong_argmax_from_the_other_end:
    """Of equal maxima eager gives the first; the flipped search gives the last."""

    def before(x): return x.argmax(0)
    def after(x): return x.shape[0] - 1 - x.flip(0).argmax(0)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, site="value")
class wrong_value_clamped:
    """Values beyond 1e4 are cut."""

    def before(x): return x
    def after(x): return x.clamp(-1e4, 1e4)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS, assumes=("finite",))
class wrong_nan_to_num_claims_finite_alone:
    """0 / 0 is NaN though both are finite: finite inputs are not finite quotients."""

    def before(x): return x / x
    def after(x): return torch.ones_like(x)


WITNESS = {
    "wrong_add_zero_dropped": lambda: {"x": floats(1.0, -0.0)},
    "wrong_difference_with_itself_is_zero": lambda: {"x": floats(1.0, INF)},
    "wrong_times_zero_is_zero": lambda: {"x": floats(1.0, NAN)},
    "wrong_truncating_division_as_shift": lambda: {"x": torch.tensor([4, 3, -3])},
    "wrong_remainder_as_fmod": lambda: {"x": torch.tensor([4, -4])},
    "wrong_softmax_over_the_other_dimension": lambda: {"x": normal(3, 4)},
    "wrong_product_of_transposes": lambda: {"a": normal(3, 3), "b": normal(3, 3) + 1},
    "wrong_mean_of_unequal_chunk_means": lambda: {"x": normal(5)},
    "wrong_not_less_equal_as_greater": lambda: {"x": floats(1.0, NAN), "y": floats(2.0, 1.0)},
    "wrong_roll_of_the_flattened_tensor": lambda: {"x": normal(3, 4)},
    "wrong_half_through_bfloat16": lambda: {"x": normal(50)},
    "wrong_root_of_square_is_identity": lambda: {"x": floats(1.0, -2.0)},
    "wrong_relu_as_where": lambda: {"x": floats(1.0, NAN)},
    "wrong_maximum_as_fmax": lambda: {"x": floats(1.0, NAN)},
    "wrong_round_as_floor_of_half_more": lambda: {"x": floats(0.5, 1.5, 2.5)},
    "wrong_reassociation_claimed_exact": lambda: {"a": normal(99), "b": normal(99) * 3, "c": normal(99) + 1},
    "wrong_division_as_multiplication_claimed_exact": lambda: {"x": normal(99)},
    "wrong_halving_before_adding": lambda: {"x": torch.tensor([1, 2**31 - 1], dtype=torch.int32)},
    "wrong_uint8_difference_compared": lambda: {"x": torch.tensor([3, 7], dtype=torch.uint8)},
    "wrong_reshape_as_transpose": lambda: {"x": normal(2, 3)},
    "wrong_maximum_over_an_overlapping_half": lambda: {"x": floats(1.0, 2.0, 3.0)},
    "wrong_variance_without_correction": lambda: {"x": normal(3, 5)},
    "wrong_gelu_is_its_tanh_form": lambda: {"x": normal(50)},
    "wrong_logsumexp_without_log": lambda: {"x": normal(3, 5)},
    "wrong_dtype_promised": lambda: {"x": floats(1.0, 2.0)},
    "wrong_shape": lambda: {"x": floats(1.0, 2.0)},
    "wrong_argmax_from_the_other_end": lambda: {"x": floats(2.0, 1.0, 2.0)},
    "wrong_value_clamped": lambda: {"x": floats(1.0, 1e5)},
    "wrong_nan_to_num_claims_finite_alone": lambda: {"x": floats(1.0, 0.0)},
}
