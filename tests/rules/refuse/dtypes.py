"""Wrong rules about casts, promotion, narrow accumulators and the precision of scalars."""

import torch

from fxmorph.model import INTS, Level
from fxmorph.rules import rule

INF, NAN = float("inf"), float("nan")
HALF = ("float16", "bfloat16")
VALUE = ("dtype", "mutation")


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@rule(args={"x": "..."}, dtypes=("int32",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_int32_through_int8:
    """Numbers beyond 127 wrap."""

    def before(x): return x.to(torch.int8).to(torch.int32)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("int32",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_int32_through_float32:
    """24 bits do not hold 2^24 + 1."""

    def before(x): return x.to(torch.float32).to(torch.int32)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("int64",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_int64_through_float64:
    """53 bits do not hold 2^53 + 1."""

    def before(x): return x.to(torch.float64).to(torch.int64)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("int16",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_int16_through_float16:
    """11 bits do not hold 2049, and 16 bits of range end before 2^15 in steps of 16."""

    def before(x): return x.to(torch.float16).to(torch.int16)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("float16",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_float16_through_bfloat16:
    """bfloat16 has three bits less."""

    def before(x): return x.to(torch.bfloat16).to(torch.float16)
    def after(x): return x.clone()


@rule(args={"x": "..."}, dtypes=("bfloat16",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_bfloat16_through_float16:
    """float16 ends at 65504 and at 6e-8; between them it holds every bfloat16."""

    def before(x): return x.to(torch.float16).to(torch.bfloat16)
    def after(x): return x.clone()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=HALF, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_one_rounding_for_two:
    """Eager rounds the product to 16 bits before it adds."""

    def before(x, y): return x * y + y
    def after(x, y): return (x.float() * y.float() + y.float()).to(x.dtype)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_scalar_of_a_product_rounded_first:
    """A product takes the number in float32; rounding 0.1 to 16 bits first gives another result."""

    def before(x): return x * 0.1
    def after(x): return x * torch.full_like(x, 0.1)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_scalar_of_a_sum_kept_in_float32:
    """A sum rounds the number to 16 bits first."""

    def before(x): return x + 0.1
    def after(x): return (x.float() + 0.1).to(x.dtype)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.BIT_EXACT)
class wrong_scalar_of_a_comparison_kept_exact:
    """0.1 rounded to 16 bits equals a 16-bit number; 0.1 itself equals none."""

    def before(x): return x == 0.1
    def after(x): return x.double() == 0.1


@rule(args={"x": "...", "y": ""}, where=["x.ndim >= 1", "x.dtype == 'float32'", "y.dtype == 'float64'"],
      dtypes=("float32", "float64"), mixed=True, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_zero_dimensional_operand_given_a_dimension:
    """A float64 of no dimension does not widen a float32 tensor; of one dimension it does."""

    def before(x, y): return x + y
    def after(x, y): return x + y.unsqueeze(0)


@rule(args={"x": "...", "y": ""}, where=["x.ndim >= 1", "x.dtype == 'float32'", "y.dtype == 'float64'"],
      dtypes=("float32", "float64"), mixed=True, claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_zero_dimensional_operand_kept_wide:
    """The float64 number is rounded to float32 before the sum, not the sum alone."""

    def before(x, y): return x + y
    def after(x, y): return (x.double() + y).float()


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_integer_with_a_float_in_float64:
    """Eager rounds the integer to float32 first: 2^24 + 1 and a half more become 2^24."""

    def before(x): return x + 0.5
    def after(x): return (x.double() + 0.5).float()


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("int64", "int32"), claim=Level.BIT_EXACT,
      preserves=("dtype",))
class wrong_true_division_in_float64:
    """Eager rounds both integers to float32 and then the quotient."""

    def before(x, y): return x / y
    def after(x, y): return (x.double() / y.double()).float()


@rule(args={"x": "..."}, dtypes=("int64", "int32"), claim=Level.BIT_EXACT)
class wrong_integer_compared_with_a_float:
    """Against a float the integer is rounded to float32: 2^24 + 1 is not above 2^24 then."""

    def before(x): return x > 16777216.0
    def after(x): return x > 16777216


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=VALUE)
class wrong_sum_of_truth_values_as_exclusive_or:
    """True + True is True."""

    def before(x, y): return x + y
    def after(x, y): return x ^ y


@rule(args={"x": "... n"}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_count_in_uint8:
    """256 truths wrap to none; fewer are counted right."""

    def before(x): return x.sum(-1)
    def after(x): return x.sum(-1, dtype=torch.uint8).to(torch.int64)


@rule(args={"x": "..."}, dtypes=("int32", "int16", "int8", "uint8"), claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_sum_in_int32:
    """Sums are int64 and wrap much later."""

    def before(x): return x.sum()
    def after(x): return x.sum(dtype=torch.int32).to(torch.int64)


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=INTS, claim=Level.BIT_EXACT, preserves=("dtype",))
class wrong_sum_keeps_the_dtype:
    """Sums of integers are int64; adding up row by row keeps the dtype. int64 alone is right."""

    def before(x): return x.sum(-1)

    def after(x):
        total = x[..., 0]
        for i in range(1, x.shape[-1]):
            total = total + x[..., i]
        return total


@rule(args={"x": "..."}, claim=Level.BIT_EXACT)
class wrong_truth_through_an_integer:
    """A half is true and truncates to 0."""

    def before(x): return x.bool()
    def after(x): return x.to(torch.int64) != 0


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.BIT_EXACT, assumes=("finite",))
class wrong_cast_to_integer_rounds_down:
    """A cast rounds towards zero."""

    def before(x): return x.to(torch.int64)
    def after(x): return x.floor().to(torch.int64)


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=VALUE)
class wrong_negation_by_the_wrong_bit:
    """The sign is the top bit; the one below it belongs to the exponent."""

    def before(x): return -x
    def after(x): return (x.view(torch.int32) ^ 0x40000000).view(torch.float32)


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT)
class wrong_order_of_bits:
    """The bits of negative floats, read as integers, are ordered the other way round."""

    def before(x): return x < -1.0
    def after(x): return x.view(torch.int32) < torch.tensor(-1.0).view(torch.int32)


WITNESS = {
    "wrong_int32_through_int8": lambda: {"x": torch.tensor([5, 200], dtype=torch.int32)},
    "wrong_int32_through_float32": lambda: {"x": torch.tensor([5, 2**24 + 1], dtype=torch.int32)},
    "wrong_int64_through_float64": lambda: {"x": torch.tensor([5, 2**53 + 1])},
    "wrong_int16_through_float16": lambda: {"x": torch.tensor([5, 2049], dtype=torch.int16)},
    "wrong_float16_through_bfloat16": lambda: {"x": torch.tensor([1.0, 1 + 2**-9]).half()},
    "wrong_bfloat16_through_float16": lambda: {"x": torch.tensor([1.0, 1e6]).bfloat16()},
    "wrong_one_rounding_for_two": lambda: {"x": normal(500).half(), "y": normal(500).flip(0).half()},
    "wrong_scalar_of_a_product_rounded_first": lambda: {"x": normal(500).bfloat16()},
    "wrong_scalar_of_a_sum_kept_in_float32": lambda: {"x": normal(5000).half()},
    "wrong_scalar_of_a_comparison_kept_exact": lambda: {"x": torch.tensor([0.1, 0.2]).half()},
    "wrong_zero_dimensional_operand_given_a_dimension": lambda: {
        "x": normal(3), "y": torch.tensor(0.1, dtype=torch.float64)
    },
    "wrong_zero_dimensional_operand_kept_wide": lambda: {
        "x": normal(999) / 4, "y": torch.tensor(0.1, dtype=torch.float64)
    },
    "wrong_integer_with_a_float_in_float64": lambda: {"x": torch.tensor([5, 2**24 + 1])},
    "wrong_true_division_in_float64": lambda: {"x": torch.tensor([6, 1841605167]), "y": torch.tensor([2, 3])},
    "wrong_integer_compared_with_a_float": lambda: {"x": torch.tensor([5, 2**24 + 1])},
    "wrong_sum_of_truth_values_as_exclusive_or": lambda: {
        "x": torch.tensor([True, True]), "y": torch.tensor([False, True])
    },
    "wrong_count_in_uint8": lambda: {"x": torch.ones(256, dtype=torch.bool)},
    "wrong_sum_in_int32": lambda: {"x": torch.tensor([2**31 - 1, 1], dtype=torch.int32)},
    "wrong_sum_keeps_the_dtype": lambda: {"x": torch.tensor([100, 100], dtype=torch.int8)},
    "wrong_truth_through_an_integer": lambda: {"x": torch.tensor([1.0, 0.5])},
    "wrong_cast_to_integer_rounds_down": lambda: {"x": torch.tensor([1.5, -1.5])},
    "wrong_negation_by_the_wrong_bit": lambda: {"x": torch.tensor([1.0, 2.0])},
    "wrong_order_of_bits": lambda: {"x": torch.tensor([1.0, -2.0])},
}  # fmt: skip
