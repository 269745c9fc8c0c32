"""Equivalent spellings of comparisons, logic and integer operations."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, "bool")


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_gt_as_lt:
    """Compares in the other direction.

    Why equivalent: x > y is y < x, false for NaN both ways.
    """

    def before(x, y): return x > y

    def after(x, y): return y < x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "not x.requires_grad", "not y.requires_grad"],
      dtypes=ANY, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("bam",))
class operator_lt_as_gt_out:
    """Compares into a bool buffer by out=.

    Why equivalent: The same comparison, written into fresh memory.
    """

    def before(x, y): return x < y

    def after(x, y): return torch.gt(y, x, out=torch.zeros(x.shape, dtype=torch.bool, device=x.device))


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.UNDER_PRECONDITION, assumes=("no_nan",),
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_ge_as_not_lt:
    """Spells >= as not <.

    Why equivalent: The complement, without NaN.
    Provokes: NaN must not be folded this way by the compiler itself.
    """

    def before(x, y): return x >= y

    def after(x, y): return ~(x < y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_le_as_lt_or_eq:
    """Spells <= as < or ==.

    Why equivalent: By definition, NaN included.
    """

    def before(x, y): return x <= y

    def after(x, y): return (x < y) | (x == y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_eq_as_le_ge:
    """Spells == as <= and >=.

    Why equivalent: By definition; NaN is unequal to all.
    """

    def before(x, y): return x == y

    def after(x, y): return (x <= y) & (x >= y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_ne_as_not_eq:
    """Spells != as not ==.

    Why equivalent: Complements of each other, NaN included.
    """

    def before(x, y): return x != y

    def after(x, y): return torch.logical_not(x == y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_eq_as_not_ne:
    """Spells == as not !=.

    Why equivalent: Complements of each other, NaN included.
    """

    def before(x, y): return x == y

    def after(x, y): return ~(x != y)


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class operator_gt_scalar_as_tensor:
    """Compares with a 0-dim tensor of the same dtype instead of a number.

    Why equivalent: The number rounds to the dtype of x both ways.
    """

    def before(x, c): return x > c

    def after(x, c): return x > torch.full((), c, dtype=x.dtype, device=x.device)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "iod"))
class operator_logical_not_as_eq:
    """Spells logical_not as comparison with 0.

    Why equivalent: By definition; NaN is true.
    """

    def before(x): return torch.logical_not(x)

    def after(x): return x == 0


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class operator_invert_as_logical_not:
    """Spells ~ of a mask as logical_not.

    Why equivalent: The same for bool.
    """

    def before(x): return ~x

    def after(x): return torch.logical_not(x)


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_invert_as_xor:
    """Spells ~ as xor with all ones.

    Why equivalent: Every bit flips: ~x = x ^ ~0.
    """

    def before(x): return ~x

    def after(x): return x ^ (~torch.zeros_like(x))


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class operator_invert_as_eq:
    """Spells ~ of a mask as equality with False.

    Why equivalent: By definition.
    """

    def before(x): return ~x

    def after(x): return torch.eq(x, False)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iot"))
class operator_and_as_mul:
    """Spells & of masks as a product.

    Why equivalent: bool times bool is and, and stays bool.
    """

    def before(x, y): return x & y

    def after(x, y): return x * y


@rule(args={"x": "...", "y": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_and_as_de_morgan:
    """Spells & by De Morgan.

    Why equivalent: ~(~x | ~y), bit by bit.
    """

    def before(x, y): return x & y

    def after(x, y): return ~(~x | ~y)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_or_as_logical_or:
    """Spells | of masks as logical_or.

    Why equivalent: The same for bool.
    """

    def before(x, y): return x | y

    def after(x, y): return torch.logical_or(x, y)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iot"))
class operator_or_as_add:
    """Spells | of masks as a sum.

    Why equivalent: bool plus bool is or in torch, and stays bool.
    """

    def before(x, y): return x | y

    def after(x, y): return x + y


@rule(args={"x": "...", "y": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_or_as_xor_and:
    """Spells | as (x ^ y) ^ (x & y).

    Why equivalent: Bit by bit.
    """

    def before(x, y): return x | y

    def after(x, y): return (x ^ y) ^ (x & y)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_xor_as_ne:
    """Spells ^ of masks as !=.

    Why equivalent: The same for bool.
    """

    def before(x, y): return x ^ y

    def after(x, y): return x != y


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ugo"))
class operator_isnan_as_ne:
    """Spells isnan as x != x.

    Why equivalent: Only NaN differs from itself.
    Provokes: Must survive fast-math and simplification.
    """

    def before(x): return torch.isnan(x)

    def after(x): return x != x


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class operator_isinf_as_eq:
    """Spells isinf as |x| == inf.

    Why equivalent: By definition.
    Provokes: Infinite constants in code generation.
    """

    def before(x): return torch.isinf(x)

    def after(x): return x.abs() == torch.inf


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ugo"))
class operator_isfinite_as_sub:
    """Spells isfinite as x - x == 0.

    Why equivalent: inf - inf and NaN - NaN are NaN.
    Provokes: Must not be folded to true.
    """

    def before(x): return torch.isfinite(x)

    def after(x): return (x - x) == 0


@rule(args={"x": "...", "y": "..."}, dtypes=("int64", "int32", "int16", "int8"), claim=Level.EXACT_REAL,
      assumes=("nonzero",), preserves=("dtype", "mutation"), targets=("iod", "div"))
class operator_floor_divide_as_div:
    """Spells integer floor division as div with rounding_mode.

    Why equivalent: The same division.
    Limits: Divisors are not 0, and the least integer is not divided by -1 (a hardware trap).
    """

    def before(x, y): return x // y

    def after(x, y): return torch.div(x, y, rounding_mode="floor")


@rule(args={"x": "...", "y": "..."}, dtypes=("int64", "int32"), claim=Level.EXACT_REAL, assumes=("nonzero",),
      preserves=("dtype", "mutation"), targets=("iod", "remainder"))
class operator_remainder_as_ops:
    """Spells the remainder by floor division.

    Why equivalent: x - (x // y) * y.
    Limits: Not for the least integer by -1 (a hardware trap).
    """

    def before(x, y): return x % y

    def after(x, y): return x - torch.floor_divide(x, y) * y


@rule(args={"x": "...", "y": "..."}, dtypes=("int64", "int32"), claim=Level.EXACT_REAL, assumes=("nonzero",),
      preserves=("dtype", "mutation"), targets=("iod", "fmod"))
class operator_fmod_as_ops:
    """Spells fmod by truncating division.

    Why equivalent: x - trunc(x / y) * y.
    Limits: Not for the least integer by -1 (a hardware trap).
    """

    def before(x, y): return torch.fmod(x, y)

    def after(x, y): return x - torch.div(x, y, rounding_mode="trunc") * y


@rule(args={"x": "..."}, where=["type(c) is int and c == 2"], scalars={"c": None}, dtypes=INTS,
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("kc",))
class operator_double_as_shift:
    """Doubles an integer by a shift.

    Why equivalent: x << 1 is 2x with wrap-around.
    """

    def before(x, c): return x * c

    def after(x): return x << 1


@rule(args={"x": "..."}, dtypes=("float32", "float64", "int64", "int32"), claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation"), targets=("kc", "sign"))
class operator_sign_as_compare:
    """Spells sign as difference of two comparisons.

    Why equivalent: 1 - 0, 0 - 1 or 0 - 0; for NaN 0 as in eager.
    """

    def before(x): return torch.sign(x)

    def after(x): return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@rule(args={"x": "..."}, where=["x.numel > 0"], dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "any"))
class operator_any_as_max:
    """Spells any as a sum that is not 0.

    Why equivalent: A mask has a true element when the count is positive.
    """

    def before(x): return x.any()

    def after(x): return x.sum() > 0


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("kc", "any"))
class operator_all_as_not_any:
    """Spells all as not any of the complement.

    Why equivalent: De Morgan; true for the empty mask.
    """

    def before(x): return x.all()

    def after(x): return ~(~x).any()
