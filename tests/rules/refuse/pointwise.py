"""Wrong rules about one element at a time: signed zero, NaN, infinity, subnormals, ties and promised roundings."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")
KEEPS = ("dtype", "mutation", "gradient")
VALUE = ("dtype", "mutation")
FULL = ("float32", "float64")
TINY = 2.0**-149


def floats(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def normal(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_negated_difference:
    """Of equal numbers both differences are +0, and negation makes the one -0."""

    def before(x, y): return -(x - y)
    def after(x, y): return y - x


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_negation_as_difference:
    """0 - 0 is +0, and -(+0) is -0; nothing else differs."""

    def before(x): return -x
    def after(x): return 0 - x


@rule(args={"x": "..."}, where=["x.ndim >= 1", "x.numel >= 1"], dtypes=FULL, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_relu_as_maximum_with_zero:
    """relu keeps -0.0; maximum with 0.0 gives 0.0, at least in full vectors (the last few elements may keep it)."""

    def before(x): return torch.relu(x)
    def after(x): return torch.maximum(x, torch.zeros_like(x))


@rule(args={"x": "n", "lo": "n", "hi": "n"}, dtypes=FULL, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_clamp_with_crossed_bounds:
    """Where the lower bound is above the upper one eager gives the upper one, this gives the lower."""

    def before(x, lo, hi): return torch.clamp(x, lo, hi)
    def after(x, lo, hi): return torch.maximum(torch.minimum(x, hi), lo)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_sign_as_quotient:
    """0 / 0 is NaN, inf / inf too; and eager's sign of NaN is 0."""

    def before(x): return x.sign()
    def after(x): return x / x.abs()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_sign_without_zero:
    """Zero is neither above nor below."""

    def before(x): return x.sign()
    def after(x): return torch.where(x < 0, -torch.ones_like(x), torch.ones_like(x))


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class wrong_sign_bit_as_comparison:
    """-0.0 has its sign bit set and is not below 0."""

    def before(x): return x.signbit()
    def after(x): return x < 0


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_maximum_absorbs_minimum:
    """A NaN in y comes through both operators; x alone does not know of it."""

    def before(x, y): return torch.maximum(x, torch.minimum(x, y))
    def after(x, y): return x.clone()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_selection_with_the_comparison_reversed:
    """NaN is not above 0 and not at most 0: the first form gives y, the second x."""

    def before(x, y): return torch.where(x > 0, x, y)
    def after(x, y): return torch.where(x <= 0, y, x)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_selection_by_arithmetic:
    """What is not selected is multiplied by 0, which infinity and NaN survive."""

    def before(x, y): return torch.where(x > 0, x, y)

    def after(x, y):
        mask = (x > 0).to(x.dtype)
        return mask * x + (1 - mask) * y


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT)
class wrong_equality_by_difference:
    """inf equals inf, and inf - inf is NaN; every finite number is right."""

    def before(x, y): return x == y
    def after(x, y): return (x - y) == 0


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class wrong_finite_is_not_infinite:
    """NaN is neither."""

    def before(x): return x.isfinite()
    def after(x): return torch.logical_not(x.isinf())


@rule(args={"x": "..."}, dtypes=("float16",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_half_power_is_root_in_float16:
    """In float16 pow(-inf, 0.5) is inf and pow(-0.0, 0.5) is 0.0, unlike sqrt and unlike the other dtypes."""

    def before(x): return x.pow(0.5)
    def after(x): return x.sqrt()


@rule(args={"x": "..."}, dtypes=("float16",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_cube_as_product_in_float16:
    """In float16 pow(x, 3) rounds once, x * x * x twice."""

    def before(x): return x.pow(3)
    def after(x): return x * x * x


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_root_taken_for_correctly_rounded:
    """Eager's vectorised sqrt may be off by one in the last place; a root in float64, narrowed, is not."""

    def before(x): return x.sqrt()
    def after(x): return x.double().sqrt().float()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_scaling_down_in_two_steps:
    """Among subnormals a half is rounded, and then a quarter of it again: 5 units become 0 and not 1."""

    def before(x): return x * 0.5 * 0.25
    def after(x): return x * 0.125


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_two_halves_added:
    """Half of an odd subnormal is rounded, twice in the same direction."""

    def before(x): return x * 0.5 + x * 0.5
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=KEEPS)
class wrong_doubled_and_halved:
    """Exact but above half of the largest number, where doubling overflows."""

    def before(x): return x * 2 * 0.5
    def after(x): return x.clone()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_six_times_by_adding:
    """Up to five terms repeated addition rounds as the product does; the sixth may not."""

    def before(x): return x + x + x + x + x + x
    def after(x): return x * 6


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_sum_less_a_term:
    """x is rounded to y's grid, and its last bits do not come back."""

    def before(x, y): return (x + y) - y
    def after(x, y): return x.clone()


@rule(args={"x": "..."}, dtypes=FULL, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_number_over_tensor_as_division:
    """Eager computes 3 / x as a reciprocal times 3, which rounds twice."""

    def before(x): return 3 / x
    def after(x): return torch.full_like(x, 3) / x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("float32",), claim=Level.BIT_EXACT,
      preserves=VALUE)
class wrong_multiply_add_unfused:
    """addcmul rounds once in vectors of float32; a product and a sum round twice."""

    def before(x, y): return torch.addcmul(x, x, y)
    def after(x, y): return x + x * y


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_truncation_as_floor:
    """Down is not towards zero for negative fractions."""

    def before(x): return x.trunc()
    def after(x): return x.floor()


@rule(args={"x": "..."}, dtypes=FULL, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE, assumes=("finite",))
class wrong_truncation_through_int32:
    """Numbers beyond 2^31 do not fit."""

    def before(x): return x.trunc()
    def after(x): return x.to(torch.int32).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, preserves=VALUE, assumes=("finite",))
class wrong_power_through_the_logarithm:
    """A negative number has no real logarithm, and (-2)^3 is -8."""

    def before(x, y): return torch.pow(x, y)
    def after(x, y): return torch.exp(y * torch.log(x))


@rule(
    args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, preserves=VALUE,
    assumes=("finite", "nonneg"),
)
class wrong_xlogy_as_a_product:
    """0 times log(0) is NaN, and xlogy(0, 0) is 0."""

    def before(x, y): return torch.xlogy(x, y)
    def after(x, y): return x * torch.log(y)


@rule(args={"x": "..."}, preserves=VALUE)
class wrong_fraction_by_floor:
    """The fraction of a negative number is negative; x - floor(x) never is."""

    def before(x): return x.frac()
    def after(x): return x - x.floor()


@rule(args={"x": "..."}, preserves=VALUE)
class wrong_remainder_as_fmod_of_floats:
    """remainder takes the sign of the divisor, fmod that of x."""

    def before(x): return torch.remainder(x, 2.0)
    def after(x): return torch.fmod(x, 2.0)


@rule(args={"x": "..."}, dtypes=FULL, preserves=VALUE)
class wrong_logarithm_of_square:
    """The square of a negative number has a logarithm, the number has none."""

    def before(x): return x.square().log()
    def after(x): return 2 * x.log()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=FULL, preserves=VALUE)
class wrong_root_of_product:
    """The product of two negative numbers has a root, the numbers have none."""

    def before(x, y): return (x * y).sqrt()
    def after(x, y): return x.sqrt() * y.sqrt()


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_rounding_of_negated_ties:
    """floor(x + 0.5) takes ties up, ceil(x - 0.5) down; only numbers halfway between integers differ."""

    def before(x): return torch.floor(x + 0.5)
    def after(x): return torch.ceil(x - 0.5)


@rule(args={"x": "..."}, scalars={"s": None}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=VALUE)
class wrong_leaky_relu_as_maximum:
    """With a slope above 1 the product is the smaller of the two for every negative x."""

    def before(x, s): return F.leaky_relu(x, s)
    def after(x, s): return torch.maximum(x, x * s)


WITNESS = {
    "wrong_negated_difference": lambda: {"x": floats(1.0, 2.0), "y": floats(1.0, 3.0)},
    "wrong_negation_as_difference": lambda: {"x": floats(1.0, 0.0)},
    "wrong_relu_as_maximum_with_zero": lambda: {"x": torch.full((64,), -0.0)},
    "wrong_clamp_with_crossed_bounds": lambda: {"x": floats(0.0, 5.0), "lo": floats(1.0, 2.0), "hi": floats(2.0, 1.0)},
    "wrong_sign_as_quotient": lambda: {"x": floats(1.0, 0.0)},
    "wrong_sign_without_zero": lambda: {"x": floats(1.0, 0.0)},
    "wrong_sign_bit_as_comparison": lambda: {"x": floats(1.0, -0.0)},
    "wrong_maximum_absorbs_minimum": lambda: {"x": floats(1.0, 2.0), "y": floats(0.0, NAN)},
    "wrong_selection_with_the_comparison_reversed": lambda: {"x": floats(1.0, NAN), "y": floats(2.0, 3.0)},
    "wrong_selection_by_arithmetic": lambda: {"x": floats(1.0, 2.0), "y": floats(2.0, INF)},
    "wrong_equality_by_difference": lambda: {"x": floats(1.0, INF), "y": floats(1.0, INF)},
    "wrong_finite_is_not_infinite": lambda: {"x": floats(1.0, NAN)},
    "wrong_half_power_is_root_in_float16": lambda: {"x": floats(1.0, -INF, dtype=torch.float16)},
    "wrong_cube_as_product_in_float16": lambda: {"x": normal(999).half()},
    "wrong_root_taken_for_correctly_rounded": lambda: {"x": normal(999).abs()},
    "wrong_scaling_down_in_two_steps": lambda: {"x": floats(1.0, 5 * TINY)},
    "wrong_two_halves_added": lambda: {"x": floats(1.0, TINY)},
    "wrong_doubled_and_halved": lambda: {"x": floats(1.0, 3e38)},
    "wrong_six_times_by_adding": lambda: {"x": normal(99)},
    "wrong_sum_less_a_term": lambda: {"x": normal(99), "y": 1000 * normal(99, 1)},
    "wrong_number_over_tensor_as_division": lambda: {"x": normal(99)},
    "wrong_multiply_add_unfused": lambda: {"x": normal(99), "y": normal(99, 1)},
    "wrong_truncation_as_floor": lambda: {"x": floats(1.5, -1.5)},
    "wrong_truncation_through_int32": lambda: {"x": floats(1.5, 3e9)},
    "wrong_power_through_the_logarithm": lambda: {"x": floats(2.0, -2.0), "y": floats(3.0, 3.0)},
    "wrong_xlogy_as_a_product": lambda: {"x": floats(1.0, 0.0), "y": floats(2.0, 0.0)},
    "wrong_fraction_by_floor": lambda: {"x": floats(1.5, -1.25)},
    "wrong_remainder_as_fmod_of_floats": lambda: {"x": floats(3.0, -1.5)},
    "wrong_logarithm_of_square": lambda: {"x": floats(2.0, -2.0)},
    "wrong_root_of_product": lambda: {"x": floats(2.0, -2.0), "y": floats(3.0, -3.0)},
    "wrong_rounding_of_negated_ties": lambda: {"x": floats(1.25, 0.5)},
    "wrong_leaky_relu_as_maximum": lambda: {"x": floats(1.0, -1.0), "s": 2.0},
}
