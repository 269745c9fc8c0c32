"""Identity insertions: arithmetic with a neutral element."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

NUMBERS = FLOATS + INTS
NOOPS = ("ugo", "remove_noop_ops", "constant_fold_uniform_value")


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_one:
    """Multiplies a value by the Python number 1.

    One is neutral for every value, NaN and infinities included.  ``remove_no_ops`` drops the
    multiplication and returns x itself: fresh memory becomes x's own.  Not for bool (promotes).
    """

    def before(x): return x

    def after(x): return x * 1


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_one_float:
    """Multiplies a floating value by 1.0.

    Exact for all values.  The scalar form of the no-op multiplication in ``constant_fold_uniform_value``.
    """

    def before(x): return x

    def after(x): return torch.mul(x, 1.0)


@rule(args={"x": "..."}, dtypes=(*NUMBERS, "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_ones_like:
    """Multiplies by a tensor of ones of the same shape and dtype (for bool: and with True).

    Exact.  ``constant_fold_uniform_value`` makes the ones a uniform constant and ``remove_no_ops``
    replaces the product by x, which loses that the product was a copy in its own layout.
    """

    def before(x): return x

    def after(x): return x * torch.ones_like(x)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_full_one:
    """Multiplies by ``torch.full(shape, 1)`` with explicit dtype, the ones on the left.

    Exact.  Same mechanism as ones_like through another constructor and the commuted operand order.
    """

    def before(x): return x

    def after(x): return torch.full(x.shape, 1, dtype=x.dtype, device=x.device) * x


@rule(args={"x": "... n"}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_ones_row:
    """Multiplies by one broadcast row of ones.

    Exact.  The uniform constant is smaller than the result, so the no-op removal has to compare
    shapes after broadcasting.  Needs at least one dimension.
    """

    def before(x): return x

    def after(x): return x * x.new_ones(x.shape[-1:])


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_one_zero_dim:
    """Multiplies by a 0-dim tensor one of the same dtype.

    Exact; a 0-dim tensor of the same dtype promotes to the same dtype.  Uniform constants of
    rank 0 take another path in ``constant_fold_uniform_value``.
    """

    def before(x): return x

    def after(x): return x * torch.ones((), dtype=x.dtype, device=x.device)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=(*NOOPS, "bam"))
class identity_add_zero:
    """Adds the Python number 0 to a floating value.

    Exact but for -0.0, which becomes 0.0.  The usual spelling of a copy that ``remove_noop_ops``
    takes away; with a later write to x the copy mattered.
    """

    def before(x): return x

    def after(x): return x + 0


@rule(args={"x": "..."}, dtypes=INTS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=(*NOOPS, "bam"))
class identity_add_zero_int:
    """Adds the Python number 0 to an integer value.

    Exact.  As identity_add_zero, for index tensors, counters and masks that are written later.
    """

    def before(x): return x

    def after(x): return x + 0


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_add_zeros_like:
    """Adds a tensor of zeros of the same shape.

    Exact but for -0.0.  ``constant_fold_uniform_value`` folds it to x: output becomes the input
    object, and 1/(x + zeros) may change sign at -0.0.
    """

    def before(x): return x

    def after(x): return x + torch.zeros_like(x)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_add_full_zero:
    """Adds ``torch.full(shape, 0.0)``, the constant on the left.

    Exact but for -0.0.  Commuted spelling of the folded addition; the constant decides the strides
    of the result when x is not dense.
    """

    def before(x): return x

    def after(x): return torch.full(x.shape, 0.0, dtype=x.dtype, device=x.device) + x


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_add_negative_zero:
    """Adds a tensor filled with -0.0, the true neutral element of IEEE addition.

    Exact for all values.  The fold must not turn the constant into +0.0 and keep the addition.
    """

    def before(x): return x

    def after(x): return x + torch.full_like(x, -0.0)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=(*NOOPS, "bam"))
class identity_sub_zero:
    """Subtracts the Python number 0.

    Exact for all values, -0.0 included.  Removed by ``remove_noop_ops``; a copy is lost.
    """

    def before(x): return x

    def after(x): return x - 0


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_sub_zeros:
    """Subtracts a tensor of zeros built by ``new_zeros``.

    Exact for all values.  ``constant_fold_uniform_value`` removes subtraction of a uniform zero.
    """

    def before(x): return x

    def after(x): return x - x.new_zeros(x.shape)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_div_one:
    """Divides a floating value by 1.

    Exact.  Removed by ``constant_fold_uniform_value``.  Not for integers: true division promotes.
    """

    def before(x): return x

    def after(x): return x / 1


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_div_ones_like:
    """Divides a floating value by a tensor of ones.

    Exact.  The uniform-constant form of the no-op division.
    """

    def before(x): return x

    def after(x): return torch.div(x, torch.ones_like(x))


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=(*NOOPS, "iod"))
class identity_pow_one:
    """Raises a value to the power 1.

    Exact, and the derivative is 1 everywhere.  ``remove_noop_ops`` and the pow lowering both have a
    special case for the exponent 1.
    """

    def before(x): return x

    def after(x): return x ** 1


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iod", "kc", "maximum"))
class identity_maximum_negative_inf:
    """Takes the maximum with minus infinity.

    Minus infinity is neutral for maximum and NaN is propagated.  Exercises NaN propagation of
    vectorised max and constants of full.  The gradient is split in two where x is -inf.
    """

    def before(x): return x

    def after(x): return torch.maximum(x, torch.full_like(x, -torch.inf))


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iod", "kc", "clamp"))
class identity_clamp_inf:
    """Clamps to [-inf, inf].

    Changes nothing; NaN stays NaN.  Exercises the clamp decomposition and infinite constants in
    value-range analysis.  The gradient at NaN differs.
    """

    def before(x): return x

    def after(x): return x.clamp(-torch.inf, torch.inf)


@rule(args={"x": "..."}, dtypes=("int64", "int32", "int16", "int8"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "iot", "bounds"))
class identity_clamp_int_limits:
    """Clamps a signed integer to the limits of its dtype.

    Changes nothing.  Extreme integer constants go through value-range analysis, ``ir.Constant`` and the
    C++ printer, where the least int64 has no literal.
    """

    def before(x): return x

    def after(x):
        info = torch.iinfo(x.dtype)
        return torch.clamp(x, info.min, info.max)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class identity_neg_neg:
    """Negates twice.

    Exact (integers wrap around both ways).  Simplifiers may drop the pair, which turns a copy into x.
    """

    def before(x): return x

    def after(x): return torch.neg(torch.neg(x))


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "bitwise_not"))
class identity_invert_invert:
    """Complements the bits twice (for bool: not, not).

    Exact.  bitwise_not of uint8 and bool is a classical code generation trap (C's ~ promotes to int).
    """

    def before(x): return x

    def after(x): return ~(~x)


@rule(args={"x": "..."}, dtypes=INTS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=NOOPS)
class identity_or_zero:
    """Takes the bitwise or with 0.

    Exact.  Scalar operand of a bitwise operation; the dtype must remain that of the tensor.
    """

    def before(x): return x

    def after(x): return x | 0


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "constant_fold_uniform_value"))
class identity_xor_xor_ones:
    """Flips the lowest bit twice.

    Exact: xor is its own inverse.  Bitwise code of narrow integers and bool masks.
    """

    def before(x): return x

    def after(x): return (x ^ torch.ones_like(x)) ^ torch.ones_like(x)


@rule(args={"x": "..."}, dtypes=("bool",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=NOOPS)
class identity_and_true:
    """Takes the and of a mask with True and the or with False.

    Exact.  Python bool operands of mask operations, and uniform folding over bool.
    """

    def before(x): return x

    def after(x): return (x & True) | torch.zeros_like(x)


@rule(args={"x": "..."}, dtypes=(*NUMBERS, "bool"), site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc", "where"))
class identity_where_true:
    """Selects x under a mask of ones, and x otherwise too.

    Both branches are x.  Constant masks are folded, and both arms load the same buffer.
    """

    def before(x): return x

    def after(x): return torch.where(torch.ones(x.shape, dtype=torch.bool, device=x.device), x, x)


@rule(args={"x": "..."}, dtypes=(*NUMBERS, "bool"), site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc", "where"))
class identity_where_false_zero:
    """Selects x where a mask of zeros is false; the other arm is zeros_like.

    The mask never holds.  Uniform folding of the mask and of the unused arm.
    """

    def before(x): return x

    def after(x): return torch.where(torch.zeros_like(x, dtype=torch.bool), torch.zeros_like(x), x)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "iod", "masked_fill"))
class identity_masked_fill_none:
    """Fills under a mask that is false everywhere.

    Nothing is filled.  The masked_fill decomposition (where with a 0-dim constant) and folding of
    uniform bool masks.
    """

    def before(x): return x

    def after(x): return x.masked_fill(torch.zeros(x.shape, dtype=torch.bool, device=x.device), 7)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "addcmul"))
class identity_addcmul_zero:
    """Adds the product of two zero tensors by addcmul.

    0 * 0 is 0, so only -0.0 changes.  The addcmul decomposition and FMA contraction over uniform constants.
    """

    def before(x): return x

    def after(x): return torch.addcmul(x, torch.zeros_like(x), torch.zeros_like(x))


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class identity_where_either_product:
    """Selects between x * 1.0 and x / 1.0 by the sign of x.

    Each arm is exact, the mask depends on the data.  Horizontal reuse of one load by a compare, two products
    and a select in one kernel.
    """

    def before(x): return x

    def after(x): return torch.where(x > 0, x * 1.0, x / 1.0)
