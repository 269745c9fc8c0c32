"""Right rules about integers: wrapping, rounding of divisions, shifts, bits and truth values."""

import torch

from fxmorph.model import INTS, Level
from fxmorph.rules import rule

SIGNED = ("int64", "int32", "int16", "int8")
NARROW = ("int32", "int16", "int8", "uint8")
VALUE = ("dtype", "mutation")


def all_bytes(dtype=torch.int8):
    return {"x": torch.arange(256).to(torch.uint8).view(dtype)}


def pairs_of_bytes():
    x = torch.arange(256).to(torch.uint8).view(torch.int8)[::5]
    return {"x": x.repeat_interleave(len(x)), "y": x.repeat(len(x))}


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_negative_by_complement:
    """Two's complement, of the least number and of unsigned ones too."""

    def before(x): return -x
    def after(x): return torch.bitwise_not(x) + 1


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_difference_by_complement:
    """x + ~y + 1, wrapping."""

    def before(x, y): return x - y
    def after(x, y): return x + torch.bitwise_not(y) + 1


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_exclusive_or_by_difference:
    """Bits of the one or the other without those of both."""

    def before(x, y): return x ^ y
    def after(x, y): return (x | y) - (x & y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_or_by_sum:
    """Common bits are counted twice and taken off once."""

    def before(x, y): return x | y
    def after(x, y): return x + y - (x & y)


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_remainder_by_floor_division:
    """remainder goes with division that rounds down."""

    def before(x): return torch.remainder(x, 3)
    def after(x): return x - torch.div(x, 3, rounding_mode="floor") * 3


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_fmod_by_truncating_division:
    """fmod goes with division that rounds towards zero."""

    def before(x): return torch.fmod(x, 3)
    def after(x): return x - torch.div(x, 3, rounding_mode="trunc") * 3


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class right_fmod_ignores_the_sign_of_the_divisor:
    """The result has the sign of x."""

    def before(x): return torch.fmod(x, -3)
    def after(x): return torch.fmod(x, 3)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class right_floor_division_by_minus_two:
    """Minus half of x rounded up, without negating x itself, which the least number would not bear."""

    def before(x): return torch.div(x, -2, rounding_mode="floor")
    def after(x): return -((x >> 1) + (x & 1))


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NARROW, claim=Level.BIT_EXACT,
      preserves=VALUE)
class right_average_without_overflow:
    """Common bits and half of the others; the sum is taken in int64."""

    def before(x, y): return ((x.to(torch.int64) + y.to(torch.int64)) >> 1).to(x.dtype)
    def after(x, y): return (x & y) + ((x ^ y) >> 1)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class right_last_bit_cleared_by_shifts:
    """Down and up again; nothing is lost at the top."""

    def before(x): return (x >> 1) << 1
    def after(x): return x & -2


@rule(args={"x": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT, preserves=VALUE)
class right_shift_left_through_int8:
    """Shifting left does not ask for a sign."""

    def before(x): return x << 1
    def after(x): return (x.view(torch.int8) << 1).view(torch.uint8)


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_products_composed:
    """Wrapping multiplication is associative."""

    def before(x): return (x * 3) * 5
    def after(x): return x * 15


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_floor_divisions_composed:
    """Rounding down twice is rounding down once."""

    def before(x): return torch.div(torch.div(x, 2, rounding_mode="floor"), 3, rounding_mode="floor")
    def after(x): return torch.div(x, 6, rounding_mode="floor")


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_truncating_divisions_composed:
    """So is rounding towards zero."""

    def before(x): return torch.div(torch.div(x, 2, rounding_mode="trunc"), 3, rounding_mode="trunc")
    def after(x): return torch.div(x, 6, rounding_mode="trunc")


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class right_half_rounded_up:
    """x // 2 and one more where x is odd."""

    def before(x): return (x >> 1) + (x & 1)
    def after(x): return x - (x >> 1)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class right_absolute_value_as_larger_of_two:
    """The least number is its own negative, and its own absolute value in eager."""

    def before(x): return x.abs()
    def after(x): return torch.maximum(x, -x)


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_sign_of_an_integer_by_comparisons:
    """Unsigned integers are never below 0."""

    def before(x): return x.sign()
    def after(x): return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_lowest_bit:
    """-x is ~x + 1."""

    def before(x): return x & (-x)
    def after(x): return x & (torch.bitwise_not(x) + 1)


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class right_integer_square:
    """Both wrap alike."""

    def before(x): return x**2
    def after(x): return x * x


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class right_clamp_of_integers_by_selection:
    """Nothing is subtracted, so nothing wraps."""

    def before(x): return x.clamp(min=3)
    def after(x): return torch.where(x < 3, 3, x)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=VALUE)
class right_complement_of_and:
    """De Morgan, bit by bit."""

    def before(x, y): return torch.bitwise_not(x & y)
    def after(x, y): return torch.bitwise_not(x) | torch.bitwise_not(y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=VALUE)
class right_exclusive_or_undone:
    """What was turned over twice is as it was."""

    def before(x, y): return (x ^ y) ^ y
    def after(x, y): return x.clone()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT)
class right_logical_and_of_integers:
    """Both are unlike zero; they need share no bit."""

    def before(x, y): return torch.logical_and(x, y)
    def after(x, y): return (x != 0) & (y != 0)


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=VALUE)
class right_negation_of_truth_values:
    """Of truth values the bitwise complement is the negation."""

    def before(x): return torch.logical_not(x)
    def after(x): return torch.bitwise_not(x)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NARROW, claim=Level.BIT_EXACT)
class right_integers_compared_by_wide_difference:
    """int64 holds every difference of narrower integers."""

    def before(x, y): return x > y
    def after(x, y): return (x.to(torch.int64) - y.to(torch.int64)) > 0


WITNESS = {
    "right_negative_by_complement": all_bytes,
    "right_difference_by_complement": pairs_of_bytes,
    "right_exclusive_or_by_difference": pairs_of_bytes,
    "right_or_by_sum": pairs_of_bytes,
    "right_remainder_by_floor_division": all_bytes,
    "right_fmod_by_truncating_division": all_bytes,
    "right_fmod_ignores_the_sign_of_the_divisor": all_bytes,
    "right_floor_division_by_minus_two": all_bytes,
    "right_average_without_overflow": pairs_of_bytes,
    "right_last_bit_cleared_by_shifts": all_bytes,
    "right_shift_left_through_int8": lambda: all_bytes(torch.uint8),
    "right_products_composed": all_bytes,
    "right_floor_divisions_composed": all_bytes,
    "right_truncating_divisions_composed": all_bytes,
    "right_half_rounded_up": all_bytes,
    "right_absolute_value_as_larger_of_two": all_bytes,
    "right_sign_of_an_integer_by_comparisons": lambda: all_bytes(torch.uint8),
    "right_lowest_bit": all_bytes,
    "right_integer_square": all_bytes,
    "right_clamp_of_integers_by_selection": all_bytes,
    "right_complement_of_and": pairs_of_bytes,
    "right_exclusive_or_undone": pairs_of_bytes,
    "right_logical_and_of_integers": pairs_of_bytes,
    "right_negation_of_truth_values": lambda: {"x": torch.tensor([True, False])},
    "right_integers_compared_by_wide_difference": pairs_of_bytes,
}
