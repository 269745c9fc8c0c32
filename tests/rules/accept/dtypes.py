"""Right rules about casts, promotion and the precision of scalars in eager on the CPU."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

INF, NAN = float("inf"), float("nan")
HALF = ("float16", "bfloat16")
SIGNED = ("int64", "int32", "int16", "int8")
ODD = (1.0, -0.0, 0.0, INF, -INF, NAN, -2.5, 3e38, 1e-45, 0.1, 1 / 3)


def floats(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_widened_and_narrowed:
    """float32 holds every 16-bit value."""

    def before(x): return x.to(torch.float32).to(x.dtype)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("int8", "uint8", "bool"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_small_integers_through_int16:
    """int16 holds every 8-bit value."""

    def before(x): return x.to(torch.int16).to(x.dtype)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("int32", "int16", "int8"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_integers_through_float64:
    """53 bits hold 32."""

    def before(x): return x.to(torch.float64).to(x.dtype)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("int16", "int8", "uint8"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_int16_through_float32:
    """24 bits hold 16."""

    def before(x): return x.to(torch.float32).to(x.dtype)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("float64",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_float64_to_float16_by_way_of_float32:
    """Eager itself narrows float64 to 16 bits through float32: it rounds twice both ways."""

    def before(x): return x.to(torch.float16)
    def after(x): return x.to(torch.float32).to(torch.float16)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=HALF, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"))
class right_product_in_float32_rounded_once:
    """The product of two 16-bit values is exact in float32 but for its range, and rounded once."""

    def before(x, y): return x * y
    def after(x, y): return (x.float() * y.float()).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("float32",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"))
class right_sum_in_float64_rounded_once:
    """53 bits are 2 * 24 + 2 and more, so the second rounding does no harm."""

    def before(x, y): return x + y
    def after(x, y): return (x.double() + y.double()).float()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("float32",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"))
class right_subtraction_in_float64_rounded_once:
    """As a sum."""

    def before(x, y): return x - y
    def after(x, y): return (x.double() - y.double()).float()


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_scalar_of_a_sum_rounded_first:
    """A sum with a number rounds the number to 16 bits first."""

    def before(x): return x + 0.1
    def after(x): return x + torch.full_like(x, 0.1)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_scalar_of_a_product_kept_in_float32:
    """A product with a number takes the number in float32."""

    def before(x): return x * 0.1
    def after(x): return (x.float() * 0.1).to(x.dtype)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT)
class right_scalar_of_a_comparison_rounded_first:
    """A comparison with a number rounds the number to 16 bits first."""

    def before(x): return x == 0.1
    def after(x): return x == torch.full_like(x, 0.1)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_division_by_three_as_product_in_16_bits:
    """1/3 in float32 is close enough for every 16-bit value (all of them were tried)."""

    def before(x): return x / 3
    def after(x): return x * (1 / 3)


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_number_over_tensor_is_a_reciprocal:
    """Eager computes 3 / x as the reciprocal times 3, rounding twice."""

    def before(x): return 3 / x
    def after(x): return x.reciprocal() * 3


@rule(args={"x": "...", "y": ""}, where=["x.ndim >= 1", "x.dtype == 'float32'", "y.dtype == 'float64'"],
      dtypes=("float32", "float64"), mixed=True, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_zero_dimensional_operand_narrowed:
    """A float64 of no dimension does not widen a float32 tensor; it is rounded first."""

    def before(x, y): return x + y
    def after(x, y): return x + y.to(torch.float32)


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_integer_with_a_float_becomes_float32:
    """Integers and a Python float meet in float32, each rounded to it first."""

    def before(x): return x + 0.5
    def after(x): return x.to(torch.float32) + 0.5


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=("dtype",))
class right_true_division_of_integers:
    """Integers are divided in float32."""

    def before(x): return x / 2
    def after(x): return x.to(torch.float32) / 2


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT, preserves=("dtype",))
class right_integer_sum_is_int64:
    """Sums of integers and of truth values are int64 from the start."""

    def before(x): return x.sum()
    def after(x): return x.to(torch.int64).sum()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"))
class right_sum_of_truth_values_is_or:
    """True + True is True."""

    def before(x, y): return x + y
    def after(x, y): return x | y


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"))
class right_product_of_truth_values_is_and:
    """One is True, zero is False."""

    def before(x, y): return x * y
    def after(x, y): return x & y


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class right_truth_is_being_unlike_zero:
    """NaN and every small number are true, -0.0 is not."""

    def before(x): return x.bool()
    def after(x): return x != 0


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, assumes=("no_nan",))
class right_sign_bit_by_bits:
    """The sign bit makes the integer of the same bits negative."""

    def before(x): return x.signbit()
    def after(x): return x.view(torch.int32) < 0


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class right_absolute_value_by_bits:
    """Clearing the sign bit; a NaN stays one."""

    def before(x): return x.abs()
    def after(x): return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.BIT_EXACT, assumes=("finite",))
class right_cast_to_integer_truncates:
    """A cast rounds towards zero."""

    def before(x): return x.to(torch.int64)
    def after(x): return x.trunc().to(torch.int64)


WITNESS = {
    "right_widened_and_narrowed": lambda: {"x": floats(*ODD, dtype=torch.bfloat16)},
    "right_small_integers_through_int16": lambda: {"x": torch.arange(-128, 128).to(torch.int8)},
    "right_integers_through_float64": lambda: {"x": torch.tensor([2**31 - 1, -(2**31), 2**24 + 1], dtype=torch.int32)},
    "right_int16_through_float32": lambda: {"x": torch.tensor([32767, -32768, 2049], dtype=torch.int16)},
    "right_float64_to_float16_by_way_of_float32": lambda: {
        "x": floats(1 + 2**-11 + 2**-40, *ODD, dtype=torch.float64)
    },
    "right_product_in_float32_rounded_once": lambda: {"x": normal(500).half(), "y": normal(500).flip(0).half()},
    "right_sum_in_float64_rounded_once": lambda: {"x": normal(500), "y": normal(500).flip(0) * 1e-4},
    "right_subtraction_in_float64_rounded_once": lambda: {"x": floats(*ODD), "y": floats(*ODD).flip(0)},
    "right_scalar_of_a_sum_rounded_first": lambda: {"x": normal(500).bfloat16()},
    "right_scalar_of_a_product_kept_in_float32": lambda: {"x": normal(500).bfloat16()},
    "right_scalar_of_a_comparison_rounded_first": lambda: {"x": floats(0.1, 0.2, dtype=torch.bfloat16)},
    "right_division_by_three_as_product_in_16_bits": lambda: {"x": normal(500).half()},
    "right_number_over_tensor_is_a_reciprocal": lambda: {"x": floats(*ODD)},
    "right_zero_dimensional_operand_narrowed": lambda: {
        "x": floats(*ODD), "y": torch.tensor(0.1, dtype=torch.float64)
    },
    "right_integer_with_a_float_becomes_float32": lambda: {"x": torch.tensor([2**24 + 1, -5, 2**62 + 1])},
    "right_true_division_of_integers": lambda: {"x": torch.tensor([2**24 + 1, -5, 2**62 + 1])},
    "right_integer_sum_is_int64": lambda: {"x": torch.full((300,), 255, dtype=torch.uint8)},
    "right_sum_of_truth_values_is_or": lambda: {"x": torch.tensor([True, True]), "y": torch.tensor([True, False])},
    "right_product_of_truth_values_is_and": lambda: {"x": torch.tensor([True, True]), "y": torch.tensor([True, False])},
    "right_truth_is_being_unlike_zero": lambda: {"x": floats(*ODD)},
    "right_sign_bit_by_bits": lambda: {"x": floats(1.0, -0.0, 0.0, INF, -INF, -1e-45)},
    "right_absolute_value_by_bits": lambda: {"x": floats(*ODD)},
    "right_cast_to_integer_truncates": lambda: {"x": floats(-1.5, 1.5, -0.0, 1e9)},
}  # fmt: skip
