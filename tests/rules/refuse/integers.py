"""Wrong rules about integers: overflow, rounding of divisions, shifts and bits, often at one value only."""

import torch

from fxmorph.model import INTS, Level
from fxmorph.rules import rule

SIGNED = ("int64", "int32", "int16", "int8")
VALUE = ("dtype", "mutation")


def ints(*values, dtype=torch.int8):
    return torch.tensor(values, dtype=dtype)


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_fmod_by_floor_division:
    """Division that rounds down goes with remainder; fmod of -4 by 3 is -1, not 2."""

    def before(x): return torch.fmod(x, 3)
    def after(x): return x - torch.div(x, 3, rounding_mode="floor") * 3


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_remainder_by_a_negative_divisor:
    """-x wraps at the least number alone, and then the remainder is of another number."""

    def before(x): return torch.remainder(x, -3)
    def after(x): return -torch.remainder(-x, 3)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_floor_division_by_minus_two:
    """Negating the least number leaves it negative: -128 // -2 is 64, this gives -64."""

    def before(x): return torch.div(x, -2, rounding_mode="floor")
    def after(x): return (-x) >> 1


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_average_of_a_wrapping_sum:
    """The sum of two large numbers wraps before it is halved."""

    def before(x, y): return (x & y) + ((x ^ y) >> 1)
    def after(x, y): return (x + y) >> 1


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_shifts_that_cancel:
    """Shifting up first loses the top bit."""

    def before(x): return (x << 1) >> 1
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_shift_right_through_int8:
    """From 128 on the signed shift pulls in ones."""

    def before(x): return x >> 1
    def after(x): return (x.view(torch.int8) >> 1).view(torch.uint8)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_product_divided:
    """Six times a large number wraps, and a third of that is not twice the number."""

    def before(x): return torch.div(x * 6, 2, rounding_mode="floor")
    def after(x): return x * 3


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_division_and_product_swapped:
    """Dividing first drops the odd half."""

    def before(x): return torch.div(x, 2, rounding_mode="floor") * 2
    def after(x): return torch.div(x * 2, 2, rounding_mode="floor")


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_half_rounded_up_by_adding:
    """x + 1 wraps at the largest number alone."""

    def before(x): return (x >> 1) + (x & 1)
    def after(x): return (x + 1) >> 1


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_absolute_value_as_larger_of_two:
    """The negative of a uint8 is a large number; signed dtypes are right."""

    def before(x): return x.abs()
    def after(x): return torch.maximum(x, -x)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT)
class wrong_absolute_value_is_never_negative:
    """The least number is its own absolute value."""

    def before(x): return x.abs() >= 0
    def after(x): return x == x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT)
class wrong_integers_compared_by_difference:
    """Differences wrap: 100 - (-100) is negative in int8, and no uint8 is."""

    def before(x, y): return x > y
    def after(x, y): return (x - y) > 0


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_clamp_by_relu:
    """The least numbers wrap when 3 is subtracted and come out large."""

    def before(x): return x.clamp(min=3)
    def after(x): return torch.relu(x - 3) + 3


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_or_as_sum:
    """Bits that both have carry."""

    def before(x, y): return x | y
    def after(x, y): return x + y


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=INTS, claim=Level.BIT_EXACT)
class wrong_logical_and_by_bits:
    """1 and 2 are both true and share no bit."""

    def before(x, y): return torch.logical_and(x, y)
    def after(x, y): return (x & y) != 0


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=SIGNED, claim=Level.BIT_EXACT,
      preserves=VALUE)
class wrong_minimum_by_negation:
    """The least number has no negative, so it counts as the least on both sides."""

    def before(x, y): return torch.minimum(x, y)
    def after(x, y): return -torch.maximum(-x, -y)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT)
class wrong_odd_by_remainder_one:
    """fmod of a negative odd number is -1."""

    def before(x): return (x & 1) == 1
    def after(x): return torch.fmod(x, 2) == 1


@rule(args={"x": "..."}, dtypes=INTS, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_thirds_by_a_shifted_product:
    """171 / 512 is a little more than a third: right for uint8, wrong from 512 on and for some below 0."""

    def before(x): return torch.div(x, 3, rounding_mode="floor")
    def after(x): return ((x.to(torch.int32) * 171) >> 9).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_division_through_float32:
    """float32 holds integers up to 2^24 and rounds the others."""

    def before(x): return torch.div(x, 2, rounding_mode="floor")
    def after(x): return (x / 2).floor().to(x.dtype)


WITNESS = {
    "wrong_fmod_by_floor_division": lambda: {"x": ints(4, -4)},
    "wrong_remainder_by_a_negative_divisor": lambda: {"x": ints(4, -128)},
    "wrong_floor_division_by_minus_two": lambda: {"x": ints(5, -128)},
    "wrong_average_of_a_wrapping_sum": lambda: {"x": ints(1, 100), "y": ints(3, 100)},
    "wrong_shifts_that_cancel": lambda: {"x": ints(1, 64)},
    "wrong_shift_right_through_int8": lambda: {"x": ints(2, 128, dtype=torch.uint8)},
    "wrong_product_divided": lambda: {"x": ints(1, 30)},
    "wrong_division_and_product_swapped": lambda: {"x": ints(2, 3)},
    "wrong_half_rounded_up_by_adding": lambda: {"x": ints(3, 127)},
    "wrong_absolute_value_as_larger_of_two": lambda: {"x": ints(0, 3, dtype=torch.uint8)},
    "wrong_absolute_value_is_never_negative": lambda: {"x": ints(3, -128)},
    "wrong_integers_compared_by_difference": lambda: {"x": ints(3, 100), "y": ints(2, -100)},
    "wrong_clamp_by_relu": lambda: {"x": ints(5, -128)},
    "wrong_or_as_sum": lambda: {"x": ints(1, 3), "y": ints(2, 1)},
    "wrong_logical_and_by_bits": lambda: {"x": ints(1, 1), "y": ints(1, 2)},
    "wrong_minimum_by_negation": lambda: {"x": ints(1, -128), "y": ints(2, 5)},
    "wrong_odd_by_remainder_one": lambda: {"x": ints(3, -3)},
    "wrong_thirds_by_a_shifted_product": lambda: {"x": ints(9, 512, dtype=torch.int16)},
    "wrong_division_through_float32": lambda: {"x": ints(8, 2**25 + 2, 2**30 - 1, dtype=torch.int32)},
}
