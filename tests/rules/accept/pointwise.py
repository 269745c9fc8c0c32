"""Right rules about one element at a time in floating point: signs, NaN, infinity, subnormals, ties."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
KEEPS = ("dtype", "mutation", "gradient")
VALUE = ("dtype", "mutation")
FULL = ("float32", "float64")
TINY = 2.0**-149
ODD = (1.0, -0.0, 0.0, INF, -INF, NAN, -2.5, 3e38, -3e38, TINY, -5 * TINY, 0.5, 1.5)


def odd(dtype=torch.float32):
    return {"x": torch.tensor(ODD, dtype=dtype)}


def odd_pairs():
    x = torch.tensor(ODD)
    return {"x": x.repeat_interleave(len(ODD)), "y": x.repeat(len(ODD))}


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def normal(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=KEEPS)
class right_difference_as_sum_with_the_negative:
    """That is how IEEE defines it, zeros included."""

    def before(x, y): return x - y
    def after(x, y): return x + (-y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=KEEPS)
class right_negated_difference_but_for_zero:
    """Rounding is symmetric; x - x is +0 both ways, which negation would make -0."""

    def before(x, y): return -(x - y)
    def after(x, y): return y - x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=KEEPS)
class right_product_of_negatives:
    """Signs cancel, of zeros too."""

    def before(x, y): return (-x) * (-y)
    def after(x, y): return x * y


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_negation_as_product:
    """Multiplication by -1 turns the sign over and rounds nothing."""

    def before(x): return -x
    def after(x): return x * -1


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_square_as_product:
    """pow(x, 2) is computed as x * x."""

    def before(x): return x.pow(2)
    def after(x): return x * x


@rule(args={"x": "..."}, dtypes=FULL, claim=Level.BIT_EXACT, preserves=VALUE)
class right_half_power_is_root:
    """In these dtypes pow(x, 0.5) is sqrt(x), of -0.0 and -inf too (float16 is another matter)."""

    def before(x): return x.pow(0.5)
    def after(x): return x.sqrt()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_power_of_minus_one_is_reciprocal:
    """A special case of pow."""

    def before(x): return x.pow(-1)
    def after(x): return x.reciprocal()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_power_of_zero_is_one:
    """Of NaN too."""

    def before(x): return x.pow(0)
    def after(x): return torch.ones_like(x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_clamp_as_maximum_and_minimum:
    """No bound is zero, so no tie has two signs; NaN passes."""

    def before(x): return x.clamp(-1, 1)
    def after(x): return torch.minimum(torch.maximum(x, torch.full_like(x, -1)), torch.ones_like(x))


@rule(args={"x": "n", "lo": "n", "hi": "n"}, dtypes=FULL, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class right_clamp_with_crossed_bounds:
    """The upper bound is applied last, so it wins where the bounds cross."""

    def before(x, lo, hi): return torch.clamp(x, lo, hi)
    def after(x, lo, hi): return torch.minimum(torch.maximum(x, lo), hi)


@rule(args={"x": "..."}, preserves=KEEPS, dtypes=FULL)
class right_sigmoid_by_definition:
    """One over one plus exp(-x)."""

    def before(x): return x.sigmoid()
    def after(x): return 1 / (1 + (-x).exp())


@rule(args={"x": "..."}, preserves=KEEPS, dtypes=FULL)
class right_tanh_by_sigmoid:
    """tanh is a sigmoid, stretched."""

    def before(x): return x.tanh()
    def after(x): return 2 * (2 * x).sigmoid() - 1


@rule(args={"x": "..."}, preserves=KEEPS)
class right_silu_by_sigmoid:
    """The definition; eager rounds elsewhere."""

    def before(x): return F.silu(x)
    def after(x): return x * x.sigmoid()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_leaky_relu_by_selection:
    """NaN and zeros are multiplied by the slope both ways."""

    def before(x): return F.leaky_relu(x)
    def after(x): return torch.where(x > 0, x, x * 0.01)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_relu6_is_clamp:
    """One kernel; gradients at the bounds differ and are not promised."""

    def before(x): return F.relu6(x)
    def after(x): return x.clamp(0, 6)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class right_relu_as_threshold:
    """Both have gradient 0 at 0; -0.0 becomes 0.0."""

    def before(x): return torch.relu(x)
    def after(x): return F.threshold(x, 0, 0)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=KEEPS)
class right_absolute_value_as_maximum:
    """At 0 the halves of the gradient cancel, which is what abs gives there."""

    def before(x): return x.abs()
    def after(x): return torch.maximum(x, -x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class right_sign_times_absolute_value:
    """sign(NaN) is 0 in eager, but 0 * NaN is NaN."""

    def before(x): return x.sign() * x.abs()
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class right_sign_by_comparisons:
    """NaN is neither above nor below zero, and eager's sign of it is 0."""

    def before(x): return x.sign()
    def after(x): return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=KEEPS, assumes=("no_nan",))
class right_larger_and_smaller_add_up:
    """Whichever is which, the two are added (beside a NaN each would get the whole gradient)."""

    def before(x, y): return torch.maximum(x, y) + torch.minimum(x, y)
    def after(x, y): return x + y


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=KEEPS)
class right_minimum_by_negation:
    """Negation turns the order round; NaN stays; ties share the gradient alike."""

    def before(x, y): return torch.minimum(x, y)
    def after(x, y): return -torch.maximum(-x, -y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=VALUE, assumes=("no_nan",))
class right_maximum_absorbs_minimum:
    """max(x, min(x, y)) is x where no y is NaN."""

    def before(x, y): return torch.maximum(x, torch.minimum(x, y))
    def after(x, y): return x.clone()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=KEEPS)
class right_selection_with_the_condition_negated:
    """Negating the truth value, and not the comparison, keeps NaN on its side."""

    def before(x, y): return torch.where(x > 0, x, y)
    def after(x, y): return torch.where(torch.logical_not(x > 0), y, x)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT)
class right_comparison_by_difference:
    """Subnormal differences keep unequal numbers apart; inf - inf is NaN and not above 0."""

    def before(x, y): return x > y
    def after(x, y): return (x - y) > 0


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, assumes=("finite",))
class right_equality_by_difference:
    """Finite numbers are equal exactly where their difference is 0."""

    def before(x, y): return x == y
    def after(x, y): return (x - y) == 0


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class right_finite_by_difference:
    """Infinity and NaN less themselves are NaN."""

    def before(x): return x.isfinite()
    def after(x): return (x - x) == 0


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, preserves=KEEPS)
class right_exponential_of_sum:
    """Over the reals."""

    def before(x, y): return (x + y).exp()
    def after(x, y): return x.exp() * y.exp()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, preserves=VALUE,
      assumes=("nonneg", "nonzero"))
class right_logarithm_of_product:
    """Of positive numbers."""

    def before(x, y): return (x * y).log()
    def after(x, y): return x.log() + y.log()


@rule(args={"x": "..."}, dtypes=FULL, preserves=VALUE)
class right_logarithm_of_square:
    """The absolute value has the same square."""

    def before(x): return x.square().log()
    def after(x): return 2 * x.abs().log()


@rule(args={"x": "..."}, dtypes=FULL, preserves=VALUE)
class right_root_of_square_is_absolute:
    """Over the reals; the gradients at 0 differ and are not promised."""

    def before(x): return x.square().sqrt()
    def after(x): return x.abs()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, preserves=KEEPS)
class right_maximum_by_absolute_difference:
    """At a tie the gradient is a half each both ways."""

    def before(x, y): return torch.maximum(x, y)
    def after(x, y): return (x + y + (x - y).abs()) / 2


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], preserves=KEEPS)
class right_interpolation_unfused:
    """A quarter of the way."""

    def before(x, y): return torch.lerp(x, y, 0.25)
    def after(x, y): return x + 0.25 * (y - x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_scaling_by_two_powers_up:
    """Growing by powers of two is exact until it overflows, which it does both ways."""

    def before(x): return x * 2 * 4
    def after(x): return x * 8


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class right_halving_as_product:
    """One rounding of the same quotient, among subnormals too."""

    def before(x): return x / 2
    def after(x): return x * 0.5


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_five_times_by_adding:
    """Up to five terms the roundings of repeated addition come out right."""

    def before(x): return x + x + x + x + x
    def after(x): return x * 5


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_ceiling_by_floor:
    """Up is down for the negative; ceil(-0.5) is -0.0 both ways."""

    def before(x): return x.ceil()
    def after(x): return -(-x).floor()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_truncation_by_sides:
    """Towards zero is up for the negative and down for the others."""

    def before(x): return x.trunc()
    def after(x): return torch.where(x < 0, x.ceil(), x.floor())


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_fraction_by_truncation:
    """The fraction has the sign of x."""

    def before(x): return x.frac()
    def after(x): return x - x.trunc()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class right_rounding_is_odd:
    """Ties to even is symmetric."""

    def before(x): return x.round()
    def after(x): return -(-x).round()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS, assumes=("no_nan",))
class right_hardtanh_shape_of_selection:
    """Outside the bounds and at them constants, inside x (a NaN would keep its value and not its gradient)."""

    def before(x): return F.hardtanh(x)
    def after(x): return torch.where(x <= -1, -1.0, torch.where(x >= 1, 1.0, x))


@rule(args={"x": "..."}, where=["0 < s <= 1"], scalars={"s": None}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=VALUE)
class right_leaky_relu_as_maximum:
    """With a slope of at most 1 the product is the larger of the two exactly where x is negative."""

    def before(x, s): return F.leaky_relu(x, s)
    def after(x, s): return torch.maximum(x, x * s)


WITNESS = {
    "right_difference_as_sum_with_the_negative": odd_pairs,
    "right_negated_difference_but_for_zero": odd_pairs,
    "right_product_of_negatives": odd_pairs,
    "right_negation_as_product": odd,
    "right_square_as_product": odd,
    "right_half_power_is_root": odd,
    "right_power_of_minus_one_is_reciprocal": odd,
    "right_power_of_zero_is_one": odd,
    "right_clamp_as_maximum_and_minimum": odd,
    "right_clamp_with_crossed_bounds": lambda: {
        "x": torch.tensor([0.0, 5.0, NAN, 1.5]), "lo": torch.tensor([1.0, 2.0, 0.0, 2.0]),
        "hi": torch.tensor([2.0, 1.0, 1.0, 1.0]),
    },
    "right_sigmoid_by_definition": lambda: {"x": leaf(0.0, -3.0, 20.0)},
    "right_tanh_by_sigmoid": lambda: {"x": leaf(0.0, -3.0, 2.0)},
    "right_silu_by_sigmoid": lambda: {"x": leaf(0.0, -3.0, 2.0)},
    "right_leaky_relu_by_selection": odd,
    "right_relu6_is_clamp": odd,
    "right_leaky_relu_as_maximum": lambda: {**odd(), "s": 0.5},
    "right_relu_as_threshold": lambda: {"x": leaf(0.0, -0.0, 1.0, -1.0)},
    "right_absolute_value_as_maximum": lambda: {"x": leaf(0.0, -0.0, 1.0, -1.0)},
    "right_sign_times_absolute_value": odd,
    "right_sign_by_comparisons": odd,
    "right_larger_and_smaller_add_up": lambda: {"x": leaf(1.0, INF, -0.0, 2.0), "y": leaf(2.0, INF, 0.0, 2.0)},
    "right_minimum_by_negation": odd_pairs,
    "right_maximum_absorbs_minimum": lambda: {"x": torch.tensor([1.0, INF, -0.0]), "y": torch.tensor([2.0, INF, 0.0])},
    "right_selection_with_the_condition_negated": odd_pairs,
    "right_comparison_by_difference": odd_pairs,
    "right_equality_by_difference": lambda: {"x": normal(9), "y": normal(9).round()},
    "right_finite_by_difference": odd,
    "right_exponential_of_sum": lambda: {"x": leaf(0.0, 3.0), "y": leaf(-1.0, -2.0)},
    "right_logarithm_of_product": lambda: {"x": normal(9).abs(), "y": normal(9, 1).abs()},
    "right_logarithm_of_square": lambda: {"x": torch.tensor([-2.0, 3.0])},
    "right_root_of_square_is_absolute": lambda: {"x": torch.tensor([-2.0, 3.0, 0.0])},
    "right_maximum_by_absolute_difference": lambda: {"x": leaf(1.0, 2.0), "y": leaf(1.0, 3.0)},
    "right_interpolation_unfused": lambda: {"x": leaf(1.0, 2.0), "y": leaf(1.5, -3.0)},
    "right_scaling_by_two_powers_up": odd,
    "right_halving_as_product": odd,
    "right_five_times_by_adding": lambda: {"x": torch.cat([normal(500), torch.tensor(ODD)])},
    "right_ceiling_by_floor": odd,
    "right_truncation_by_sides": odd,
    "right_fraction_by_truncation": odd,
    "right_rounding_is_odd": odd,
    "right_hardtanh_shape_of_selection": lambda: {"x": leaf(-1.0, 1.0, 0.5, -7.0)},
}  # fmt: skip
