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

    x > y is y < x, false for NaN both ways.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x > y

    def after(x, y): return y < x


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "not x.requires_grad", "not y.requires_grad"],
      dtypes=ANY, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("bam",))
class operator_lt_as_gt_out:
    """Compares into a bool buffer by out=.

    The same comparison, written into fresh memory.
    Aims at functionalisation and reinplacing of writes.
    """

    def before(x, y): return x < y

    def after(x, y): return torch.gt(y, x, out=torch.zeros(x.shape, dtype=torch.bool, device=x.device))


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.UNDER_PRECONDITION, assumes=("no_nan",),
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class operator_ge_as_not_lt:
    """Spells >= as not <.

    The complement, without NaN. NaN must not be folded this way by the compiler itself.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x >= y

    def after(x, y): return ~(x < y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_le_as_lt_or_eq:
    """Spells <= as < or ==.

    By definition, NaN included.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x <= y

    def after(x, y): return (x < y) | (x == y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_eq_as_le_ge:
    """Spells == as <= and >=.

    By definition; NaN is unequal to all.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x == y

    def after(x, y): return (x <= y) & (x >= y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_ne_as_not_eq:
    """Spells != as not ==.

    Complements of each other, NaN included.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x != y

    def after(x, y): return torch.logical_not(x == y)


@rule(args={"x": "...", "y": "..."}, dtypes=ANY, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_eq_as_not_ne:
    """Spells == as not !=.

    Complements of each other, NaN included.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x == y

    def after(x, y): return ~(x != y)


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class operator_gt_scalar_as_tensor:
    """Compares with a 0-dim tensor of the same dtype instead of a number.

    The number rounds to the dtype of x both ways.
    Aims at dtype promotion.
    """

    def before(x, c): return x > c

    def after(x, c): return x > torch.full((), c, dtype=x.dtype, device=x.device)


@rule(args={"x": "..."}, dtypes=ANY, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "iod"))
class operator_logical_not_as_eq:
    """Spells logical_not as comparison with 0.

    By definition; NaN is true.
    Aims at decompositions.
    """

    def before(x): return torch.logical_not(x)

    def after(x): return x == 0


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class operator_invert_as_logical_not:
    """Spells ~ of a mask as logical_not.

    The same for bool.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x): return ~x

    def after(x): return torch.logical_not(x)


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_invert_as_xor:
    """Spells ~ as xor with all ones.

    Every bit flips: ~x = x ^ ~0.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x): return ~x

    def after(x): return x ^ (~torch.zeros_like(x))


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class operator_invert_as_eq:
    """Spells ~ of a mask as equality with False.

    By definition.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x): return ~x

    def after(x): return torch.eq(x, False)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iot"))
class operator_and_as_mul:
    """Spells & of masks as a product.

    bool times bool is and, and stays bool.
    Aims at dtype promotion.
    """

    def before(x, y): return x & y

    def after(x, y): return x * y


@rule(args={"x": "...", "y": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_and_as_de_morgan:
    """Spells & by De Morgan.

    ~(~x | ~y), bit by bit.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x & y

    def after(x, y): return ~(~x | ~y)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_or_as_logical_or:
    """Spells | of masks as logical_or.

    The same for bool.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x | y

    def after(x, y): return torch.logical_or(x, y)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iot"))
class operator_or_as_add:
    """Spells | of masks as a sum.

    bool plus bool is or in torch, and stays bool.
    Aims at dtype promotion.
    """

    def before(x, y): return x | y

    def after(x, y): return x + y


@rule(args={"x": "...", "y": "..."}, dtypes=(*INTS, "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_or_as_xor_and:
    """Spells | as (x ^ y) ^ (x & y).

    Bit by bit.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x | y

    def after(x, y): return (x ^ y) ^ (x & y)


@rule(args={"x": "...", "y": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class operator_xor_as_ne:
    """Spells ^ of masks as !=.

    The same for bool.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, y): return x ^ y

    def after(x, y): return x != y


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ugo"))
class operator_isnan_as_ne:
    """Spells isnan as x != x.

    Only NaN differs from itself. Must survive fast-math and simplification.
    Aims at pattern rewrites of the graph.
    """

    def before(x): return torch.isnan(x)

    def after(x): return x != x


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class operator_isinf_as_eq:
    """Spells isinf as |x| == inf.

    By definition; infinite constants in code generation.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x): return torch.isinf(x)

    def after(x): return x.abs() == torch.inf


@rule(args={"x": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ugo"))
class operator_isfinite_as_sub:
    """Spells isfinite as x - x == 0.

    inf - inf and NaN - NaN are NaN. Must not be folded to true.
    Aims at pattern rewrites of the graph.
    """

    def before(x): return torch.isfinite(x)

    def after(x): return (x - x) == 0


@rule(args={"x": "...", "y": "..."}, dtypes=("int64", "int32", "int16", "int8"), claim=Level.EXACT_REAL,
      assumes=("nonzero",), preserves=("dtype", "mutation"), targets=("iod", "div"))
class operator_floor_divide_as_div:
    """Spells integer floor division as div with rounding_mode.

    The same division; divisors are not 0, and the least integer is not divided by -1 (a hardware trap).
    Aims at the div lowering or decomposition.
    """

    def before(x, y): return x // y

    def after(x, y): return torch.div(x, y, rounding_mode="floor")


@rule(args={"x": "...", "y": "..."}, dtypes=("int64", "int32"), claim=Level.EXACT_REAL, assumes=("nonzero",),
      preserves=("dtype", "mutation"), targets=("iod", "remainder"))
class operator_remainder_as_ops:
    """Spells the remainder by floor division.

    x - (x // y) * y. Not for the least integer by -1 (a hardware trap).
    Aims at the remainder lowering or decomposition.
    """

    def before(x, y): return x % y

    def after(x, y): return x - torch.floor_divide(x, y) * y


@rule(args={"x": "...", "y": "..."}, dtypes=("int64", "int32"), claim=Level.EXACT_REAL, assumes=("nonzero",),
      preserves=("dtype", "mutation"), targets=("iod", "fmod"))
class operator_fmod_as_ops:
    """Spells fmod by truncating division.

    x - trunc(x / y) * y. Not for the least integer by -1 (a hardware trap).
    Aims at the fmod lowering or decomposition.
    """

    def before(x, y): return torch.fmod(x, y)

    def after(x, y): return x - torch.div(x, y, rounding_mode="trunc") * y


@rule(args={"x": "..."}, where=["type(c) is int and c == 2"], scalars={"c": None}, dtypes=INTS,
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("kc",))
class operator_double_as_shift:
    """Doubles an integer by a shift.

    x << 1 is 2x with wrap-around.
    Aims at fusion and code generation: other operations in the kernel for the same value.
    """

    def before(x, c): return x * c

    def after(x): return x << 1


@rule(args={"x": "..."}, dtypes=("float32", "float64", "int64", "int32"), claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation"), targets=("kc", "sign"))
class operator_sign_as_compare:
    """Spells sign as difference of two comparisons.

    1 - 0, 0 - 1 or 0 - 0; for NaN 0 as in eager.
    Aims at the sign lowering or decomposition.
    """

    def before(x): return torch.sign(x)

    def after(x): return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@rule(args={"x": "..."}, where=["x.numel > 0"], dtypes=("bool",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "any"))
class operator_any_as_max:
    """Spells any as a sum that is not 0.

    A mask has a true element when the count is positive.
    Aims at the any lowering or decomposition.
    """

    def before(x): return x.any()

    def after(x): return x.sum() > 0


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("kc", "any"))
class operator_all_as_not_any:
    """Spells all as not any of the complement.

    De Morgan; true for the empty mask.
    Aims at the any lowering or decomposition.
    """

    def before(x): return x.all()

    def after(x): return ~(~x).any()
