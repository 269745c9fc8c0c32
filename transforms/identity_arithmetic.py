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

    Why equivalent: One is neutral for every value, NaN and infinities included.
    Provokes: ``remove_no_ops`` drops the multiplication and returns x itself: fresh memory becomes x's own.
    Limits: Not for bool (promotes).
    """

    def after(x): return x * 1


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_one_float:
    """Multiplies a floating value by 1.0.

    Why equivalent: Exact for all values.
    Provokes: The scalar form of the no-op multiplication in ``constant_fold_uniform_value``.
    """

    def after(x): return torch.mul(x, 1.0)


@rule(args={"x": "..."}, dtypes=(*NUMBERS, "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_ones_like:
    """Multiplies by a tensor of ones of the same shape and dtype (for bool: and with True).

    Why equivalent: Exact.
    Provokes: ``constant_fold_uniform_value`` makes the ones a uniform constant and ``remove_no_ops`` replaces the
    product by x, which loses that the product was a copy in its own layout.
    """

    def after(x): return x * torch.ones_like(x)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_full_one:
    """Multiplies by ``torch.full(shape, 1)`` with explicit dtype, the ones on the left.

    Why equivalent: Exact.
    Provokes: Same mechanism as ones_like through another constructor and the commuted operand order.
    """

    def after(x): return torch.full(x.shape, 1, dtype=x.dtype, device=x.device) * x


@rule(args={"x": "... n"}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_ones_row:
    """Multiplies by one broadcast row of ones.

    Why equivalent: Exact.
    Provokes: The uniform constant is smaller than the result, so the no-op removal has to compare shapes after
    broadcasting.
    Limits: Needs at least one dimension.
    """

    def after(x): return x * x.new_ones(x.shape[-1:])


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_mul_one_zero_dim:
    """Multiplies by a 0-dim tensor one of the same dtype.

    Why equivalent: Exact; a 0-dim tensor of the same dtype promotes to the same dtype.
    Provokes: Uniform constants of rank 0 take another path in ``constant_fold_uniform_value``.
    """

    def after(x): return x * torch.ones((), dtype=x.dtype, device=x.device)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=(*NOOPS, "bam"))
class identity_add_zero:
    """Adds the Python number 0 to a floating value.

    Why equivalent: Exact but for -0.0, which becomes 0.0.
    Provokes: The usual spelling of a copy that ``remove_noop_ops`` takes away; with a later write to x the copy
    mattered.
    """

    def after(x): return x + 0


@rule(args={"x": "..."}, dtypes=INTS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=(*NOOPS, "bam"))
class identity_add_zero_int:
    """Adds the Python number 0 to an integer value.

    Why equivalent: Exact.
    Provokes: As identity_add_zero, for index tensors, counters and masks that are written later.
    """

    def after(x): return x + 0


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_add_zeros_like:
    """Adds a tensor of zeros of the same shape.

    Why equivalent: Exact but for -0.0.
    Provokes: ``constant_fold_uniform_value`` folds it to x: output becomes the input object, and 1/(x + zeros) may
    change sign at -0.0.
    """

    def after(x): return x + torch.zeros_like(x)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_add_full_zero:
    """Adds ``torch.full(shape, 0.0)``, the constant on the left.

    Why equivalent: Exact but for -0.0.
    Provokes: Commuted spelling of the folded addition; the constant decides the strides of the result when x is not
    dense.
    """

    def after(x): return torch.full(x.shape, 0.0, dtype=x.dtype, device=x.device) + x


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_add_negative_zero:
    """Adds a tensor filled with -0.0, the true neutral element of IEEE addition.

    Why equivalent: Exact for all values.
    Provokes: The fold must not turn the constant into +0.0 and keep the addition.
    """

    def after(x): return x + torch.full_like(x, -0.0)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=(*NOOPS, "bam"))
class identity_sub_zero:
    """Subtracts the Python number 0.

    Why equivalent: Exact for all values, -0.0 included.
    Provokes: A copy is lost.
    """

    def after(x): return x - 0


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_sub_zeros:
    """Subtracts a tensor of zeros built by ``new_zeros``.

    Why equivalent: Exact for all values.
    Provokes: ``constant_fold_uniform_value`` removes subtraction of a uniform zero.
    """

    def after(x): return x - x.new_zeros(x.shape)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_div_one:
    """Divides a floating value by 1.

    Why equivalent: Exact.
    Limits: Not for integers: true division promotes.
    """

    def after(x): return x / 1


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=NOOPS)
class identity_div_ones_like:
    """Divides a floating value by a tensor of ones.

    Why equivalent: Exact.
    Provokes: The uniform-constant form of the no-op division.
    """

    def after(x): return torch.div(x, torch.ones_like(x))


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=(*NOOPS, "iod"))
class identity_pow_one:
    """Raises a value to the power 1.

    Why equivalent: Exact, and the derivative is 1 everywhere.
    Provokes: ``remove_noop_ops`` and the pow lowering both have a special case for the exponent 1.
    """

    def after(x): return x ** 1


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iod", "kc", "maximum"))
class identity_maximum_negative_inf:
    """Takes the maximum with minus infinity.

    Why equivalent: Minus infinity is neutral for maximum and NaN is propagated.
    Provokes: NaN propagation of vectorised max and constants of full.
    Limits: The gradient is split in two where x is -inf.
    """

    def after(x): return torch.maximum(x, torch.full_like(x, -torch.inf))


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iod", "kc", "clamp"))
class identity_clamp_inf:
    """Clamps to [-inf, inf].

    Why equivalent: Changes nothing; NaN stays NaN.
    Provokes: The clamp decomposition and infinite constants in value-range analysis.
    Limits: The gradient at NaN differs.
    """

    def after(x): return x.clamp(-torch.inf, torch.inf)


@rule(args={"x": "..."}, dtypes=("int64", "int32", "int16", "int8"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "iot", "bounds"))
class identity_clamp_int_limits:
    """Clamps a signed integer to the limits of its dtype.

    Why equivalent: Changes nothing.
    Provokes: Extreme integer constants go through value-range analysis, ``ir.Constant`` and the C++ printer, where the
    least int64 has no literal.
    """

    def after(x):
        info = torch.iinfo(x.dtype)
        return torch.clamp(x, info.min, info.max)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class identity_neg_neg:
    """Negates twice.

    Why equivalent: Exact (integers wrap around both ways).
    Provokes: Simplifiers may drop the pair, which turns a copy into x.
    """

    def after(x): return torch.neg(torch.neg(x))


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "bitwise_not"))
class identity_invert_invert:
    """Complements the bits twice (for bool: not, not).

    Why equivalent: Exact.
    Provokes: bitwise_not of uint8 and bool is a classical code generation trap (C's ~ promotes to int).
    """

    def after(x): return ~(~x)


@rule(args={"x": "..."}, dtypes=INTS, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=NOOPS)
class identity_or_zero:
    """Takes the bitwise or with 0.

    Why equivalent: Exact.
    Provokes: Scalar operand of a bitwise operation; the dtype must remain that of the tensor.
    """

    def after(x): return x | 0


@rule(args={"x": "..."}, dtypes=(*INTS, "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc", "constant_fold_uniform_value"))
class identity_xor_xor_ones:
    """Flips the lowest bit twice.

    Why equivalent: Exact: xor is its own inverse.
    Provokes: Bitwise code of narrow integers and bool masks.
    """

    def after(x): return (x ^ torch.ones_like(x)) ^ torch.ones_like(x)


@rule(args={"x": "..."}, dtypes=("bool",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=NOOPS)
class identity_and_true:
    """Takes the and of a mask with True and the or with False.

    Why equivalent: Exact.
    Provokes: Python bool operands of mask operations, and uniform folding over bool.
    """

    def after(x): return (x & True) | torch.zeros_like(x)


@rule(args={"x": "..."}, dtypes=(*NUMBERS, "bool"), site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc", "where"))
class identity_where_true:
    """Selects x under a mask of ones, and x otherwise too.

    Why equivalent: Both branches are x.
    Provokes: Constant masks are folded, and both arms load the same buffer.
    """

    def after(x): return torch.where(torch.ones(x.shape, dtype=torch.bool, device=x.device), x, x)


@rule(args={"x": "..."}, dtypes=(*NUMBERS, "bool"), site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc", "where"))
class identity_where_false_zero:
    """Selects x where a mask of zeros is false; the other arm is zeros_like.

    Why equivalent: The mask never holds.
    Provokes: Uniform folding of the mask and of the unused arm.
    """

    def after(x): return torch.where(torch.zeros_like(x, dtype=torch.bool), torch.zeros_like(x), x)


@rule(args={"x": "..."}, dtypes=NUMBERS, site="value", claim=Level.INDEX_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "iod", "masked_fill"))
class identity_masked_fill_none:
    """Fills under a mask that is false everywhere.

    Why equivalent: Nothing is filled.
    Provokes: The masked_fill decomposition (where with a 0-dim constant) and folding of uniform bool masks.
    """

    def after(x): return x.masked_fill(torch.zeros(x.shape, dtype=torch.bool, device=x.device), 7)


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "addcmul"))
class identity_addcmul_zero:
    """Adds the product of two zero tensors by addcmul.

    Why equivalent: 0 * 0 is 0, so only -0.0 changes.
    Provokes: The addcmul decomposition and FMA contraction over uniform constants.
    """

    def after(x): return torch.addcmul(x, torch.zeros_like(x), torch.zeros_like(x))


@rule(args={"x": "..."}, site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class identity_where_either_product:
    """Selects between x * 1.0 and x / 1.0 by the sign of x.

    Why equivalent: Each arm is exact, the mask depends on the data.
    Provokes: Horizontal reuse of one load by a compare, two products and a select in one kernel.
    """

    def after(x): return torch.where(x > 0, x * 1.0, x / 1.0)
