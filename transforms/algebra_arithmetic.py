"""Equivalents of arithmetic: signs, reassociation, powers, products."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

NUMBERS = FLOATS + INTS
SIGNED = (*FLOATS, "int64", "int32", "int16", "int8")


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "kc"))
class algebra_sub_as_add_neg:
    """Subtracts by adding the negated operand.

    Why equivalent: IEEE defines x - y as x + (-y); integers wrap alike.
    Provokes: Two pointwise nodes instead of one in a fusion group.
    """

    def before(x, y): return x - y

    def after(x, y): return x + (-y)


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "rsub"))
class algebra_sub_as_rsub:
    """Subtracts by rsub with swapped operands.

    Why equivalent: The same subtraction.
    Provokes: rsub has its own decomposition and type promotion.
    """

    def before(x, y): return x - y

    def after(x, y): return torch.rsub(y, x)


@rule(args={"x": "...", "y": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "iot", "add"))
class algebra_sub_as_add_alpha:
    """Subtracts by add with alpha=-1.

    Why equivalent: -1 * y is exact.
    Provokes: alpha is multiplied in by the decomposition of add.
    """

    def before(x, y): return x - y

    def after(x, y): return torch.add(x, y, alpha=-1)


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_sub_swapped:
    """Negates the opposite difference.

    Why equivalent: Rounding is symmetric; only the sign of a zero difference changes.
    """

    def before(x, y): return x - y

    def after(x, y): return -(y - x)


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class algebra_add_swapped:
    """Adds in the other order.

    Why equivalent: Addition commutes.
    Provokes: With operands of different layout the result may take the strides of the other one.
    """

    def before(x, y): return x + y

    def after(x, y): return y + x


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("ilp", "kc"))
class algebra_mul_swapped:
    """Multiplies in the other order.

    Why equivalent: Multiplication commutes.
    Provokes: Patterns that expect an operand at one side no longer match.
    """

    def before(x, y): return x * y

    def after(x, y): return y * x


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_add_as_sub_neg:
    """Adds by subtracting the negated operand.

    Why equivalent: x - (-y) is x + y in IEEE and with wrap-around.
    """

    def before(x, y): return x + y

    def after(x, y): return x - (-y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape", "not x.requires_grad", "not y.requires_grad"],
      dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("bam",))
class algebra_add_as_out:
    """Adds into a zeros buffer by out=.

    Why equivalent: out= computes the same sum.
    Provokes: Dynamo and functionalisation replace the buffer.
    Limits: No gradient for out=.
    """

    def before(x, y): return x + y

    def after(x, y): return torch.add(x, y, out=torch.zeros_like(x))


@rule(args={"x": "...", "y": "..."},
      where=["x.ndim >= 1", "x.shape == y.shape", "not x.requires_grad", "not y.requires_grad"], dtypes=NUMBERS,
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("bam",))
class algebra_mul_as_out:
    """Multiplies into a transposed zeros buffer by out=.

    Why equivalent: out= computes the same product.
    Provokes: out= keeps the strides of the buffer, which is column-major: the product is written through a permuted
    layout.
    """

    def before(x, y): return x * y

    def after(x, y):
        return torch.mul(x, y, out=x.new_zeros(x.shape[::-1]).permute(*range(x.dim() - 1, -1, -1)))


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_add_reassociated:
    """Regroups a sum of three.

    Why equivalent: Addition is associative over the reals.
    Provokes: Other intermediate buffers and broadcast shapes.
    """

    def before(x, y, z): return (x + y) + z

    def after(x, y, z): return x + (y + z)


@rule(args={"x": "...", "y": "...", "z": "..."}, dtypes=INTS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("kc",))
class algebra_add_reassociated_int:
    """Regroups an integer sum of three.

    Why equivalent: Wrap-around addition is associative.
    Provokes: Index expressions are regrouped by sympy.
    """

    def before(x, y, z): return (x + y) + z

    def after(x, y, z): return x + (y + z)


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_mul_reassociated:
    """Regroups a product of three.

    Why equivalent: Multiplication is associative over the reals.
    """

    def before(x, y, z): return (x * y) * z

    def after(x, y, z): return x * (y * z)


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_distribute_mul:
    """Multiplies both terms of a sum.

    Why equivalent: Distributive law over the reals.
    Provokes: FMA contraction in generated code.
    """

    def before(x, y, z): return (x + y) * z

    def after(x, y, z): return x * z + y * z


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_factor_out:
    """Factors a common right factor out of a sum of products.

    Why equivalent: Distributive law over the reals.
    """

    def before(x, y, z): return x * z + y * z

    def after(x, y, z): return (x + y) * z


@rule(args={"x": "...", "y": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_mul_neg_outside:
    """Moves a negation out of a product.

    Why equivalent: The sign of a product is the product of signs; NaN stays NaN.
    """

    def before(x, y): return (-x) * y

    def after(x, y): return -(x * y)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "iot"))
class algebra_neg_as_mul:
    """Negates by multiplying with -1.

    Why equivalent: Exact for all values.
    """

    def before(x): return -x

    def after(x): return x * -1


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "rsub"))
class algebra_neg_as_sub:
    """Negates by subtracting from 0.

    Why equivalent: 0 - x is -x but for x = 0.
    Provokes: rsub with a Python scalar.
    """

    def before(x): return -x

    def after(x): return 0 - x


@rule(args={"x": "..."}, where=["c == 2"], scalars={"c": None}, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_double_as_add:
    """Doubles by adding x to itself.

    Why equivalent: 2 * x and x + x round alike (both exact but for overflow).
    """

    def before(x, c): return x * c

    def after(x): return x + x


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class algebra_add_self_as_mul:
    """Adds x to itself by multiplying with 2.

    Why equivalent: Exact both ways.
    """

    def before(x): return x + x

    def after(x): return x * 2


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "pow"))
class algebra_mul_self_as_pow:
    """Squares by pow.

    Why equivalent: Eager computes pow(x, 2) as x * x.
    Provokes: The pow lowering expands small integer exponents.
    """

    def before(x): return x * x

    def after(x): return x ** 2


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "square"))
class algebra_mul_self_as_square:
    """Squares by torch.square.

    Why equivalent: square is pow with exponent 2.
    """

    def before(x): return x * x

    def after(x): return torch.square(x)


@rule(args={"x": "..."}, where=["c == 2"], scalars={"c": None}, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "pow"))
class algebra_square_as_mul:
    """Squares by multiplication.

    Why equivalent: Eager computes pow(x, 2) as x * x, for exponents 2 and 2.0.
    """

    def before(x, c): return x ** c

    def after(x): return x * x


@rule(args={"x": "..."}, where=["c == 3"], scalars={"c": None}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "pow"))
class algebra_cube_as_mul:
    """Cubes by two multiplications.

    Why equivalent: Equal over the reals.
    """

    def before(x, c): return x ** c

    def after(x): return x * x * x


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("nonneg", "finite"),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "pow"))
class algebra_sqrt_as_pow:
    """Takes the root by pow with 0.5.

    Why equivalent: Equal for finite non-negative x.
    Provokes: pow's special cases for 0.5.
    """

    def before(x): return torch.sqrt(x)

    def after(x): return x ** 0.5


@rule(args={"x": "..."}, where=["c == 0.5"], scalars={"c": None}, claim=Level.EXACT_REAL,
      assumes=("nonneg", "finite"), preserves=("dtype", "mutation", "gradient"), targets=("iod", "pow"))
class algebra_pow_half_as_sqrt:
    """Takes the power 0.5 by sqrt.

    Why equivalent: Equal for finite non-negative x.
    """

    def before(x, c): return x ** c

    def after(x): return torch.sqrt(x)


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("nonneg", "finite"),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "iod"))
class algebra_rsqrt_as_reciprocal:
    """Takes 1/sqrt by reciprocal of sqrt.

    Why equivalent: Equal over the reals.
    Provokes: Used in every norm; libdevice and vector rsqrt differ from it by rounding only.
    """

    def before(x): return torch.rsqrt(x)

    def after(x): return torch.sqrt(x).reciprocal()


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("nonneg", "nonzero", "finite"),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "pow"))
class algebra_rsqrt_as_pow:
    """Takes 1/sqrt by pow with -0.5.

    Why equivalent: Equal for positive x.
    """

    def before(x): return torch.rsqrt(x)

    def after(x): return x ** -0.5


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iod", "reciprocal"))
class algebra_reciprocal_as_div:
    """Divides 1 by x instead of taking the reciprocal.

    Why equivalent: Equal by definition; eager itself computes scalar / tensor by reciprocal.
    """

    def before(x): return torch.reciprocal(x)

    def after(x): return 1 / x


@rule(args={"x": "...", "y": "..."}, claim=Level.EXACT_REAL, assumes=("nonzero", "finite"),
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "div"))
class algebra_div_as_mul_reciprocal:
    """Divides by multiplying with the reciprocal.

    Why equivalent: Equal over the reals for y != 0 (checked on both arguments).
    """

    def before(x, y): return x / y

    def after(x, y): return x * y.reciprocal()


@rule(args={"x": "..."}, where=["c != 0", "abs(c) > 1e-6", "abs(c) < 1e6"], scalars={"c": None},
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("kc", "div"))
class algebra_div_scalar_as_mul:
    """Divides by a Python number by multiplying with its inverse.

    Why equivalent: Equal over the reals.
    Provokes: Scale factors of attention come in both spellings.
    """

    def before(x, c): return x / c

    def after(x, c): return x * (1.0 / c)


@rule(args={"x": "..."}, where=["c != 0", "abs(c) > 1e-6", "abs(c) < 1e6"], scalars={"c": None},
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("kc", "div"))
class algebra_mul_scalar_as_div:
    """Multiplies by a Python number by dividing by its inverse.

    Why equivalent: Equal over the reals.
    Limits: Floating tensors only.
    """

    def before(x, c): return x * c

    def after(x, c): return x / (1.0 / c)


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None},
      claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation", "gradient"), targets=("iod",))
class algebra_sub_scalar_as_add:
    """Subtracts a Python number by adding its negative.

    Why equivalent: x - c is x + (-c); the scalar rounds alike.
    """

    def before(x, c): return x - c

    def after(x, c): return x + (-c)


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("kc",))
class algebra_mul_scalar_split:
    """Multiplies by a Python number as c*x/2 + c*x/2.

    Why equivalent: Halves are exact (but for subnormals).
    Provokes: A tree of two equal terms that CSE merges.
    """

    def before(x, c): return x * c

    def after(x, c): return x * c * 0.5 + x * c * 0.5


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "addcmul"))
class algebra_addcmul_from_ops:
    """Fuses a product and a sum into addcmul.

    Why equivalent: The same value up to one rounding.
    Provokes: addcmul has its own decomposition and promotion.
    """

    def before(x, y, z): return x + y * z

    def after(x, y, z): return torch.addcmul(x, y, z)


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "addcmul"))
class algebra_addcmul_to_ops:
    """Spells addcmul as product and sum.

    Why equivalent: The definition of addcmul with value 1.
    """

    def before(x, y, z): return torch.addcmul(x, y, z)

    def after(x, y, z): return x + y * z


@rule(args={"x": "...", "y": "...", "z": "..."}, claim=Level.EXACT_REAL, assumes=("nonzero", "finite"),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "addcdiv"))
class algebra_addcdiv_from_ops:
    """Fuses a quotient and a sum into addcdiv.

    Why equivalent: The definition of addcdiv with value 1.
    Provokes: Optimizers use it.
    """

    def before(x, y, z): return x + y / z

    def after(x, y, z): return torch.addcdiv(x, y, z)


@rule(args={"x": "...", "y": "...", "w": "..."}, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "lerp"))
class algebra_lerp_to_ops:
    """Spells lerp as x + w * (y - x).

    Why equivalent: The definition over the reals.
    Provokes: Eager switches formula at w = 0.5.
    """

    def before(x, y, w): return torch.lerp(x, y, w)

    def after(x, y, w): return x + w * (y - x)


@rule(args={"x": "...", "y": "...", "w": "..."}, claim=Level.EXACT_REAL, assumes=("finite",),
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "lerp"))
class algebra_lerp_from_ops:
    """Fuses x + w * (y - x) into lerp.

    Why equivalent: The definition over the reals.
    Provokes: The lerp decomposition selects between two formulas.
    """

    def before(x, y, w): return x + w * (y - x)

    def after(x, y, w): return torch.lerp(x, y, w)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "maximum"))
class algebra_abs_as_maximum:
    """Takes the absolute value as the larger of x and -x.

    Why equivalent: Equal; at 0 the halves of the gradient cancel to 0 as abs has it.
    """

    def before(x): return torch.abs(x)

    def after(x): return torch.maximum(x, -x)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "sign"))
class algebra_abs_as_mul_sign:
    """Takes the absolute value as x * sign(x).

    Why equivalent: sign is -1, 0 or 1; NaN * 0 is NaN.
    """

    def before(x): return torch.abs(x)

    def after(x): return x * torch.sign(x)


@rule(args={"x": "..."}, dtypes=SIGNED, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("kc", "where"))
class algebra_abs_as_where:
    """Takes the absolute value by a select.

    Why equivalent: The definition, but -0.0 keeps its sign.
    Limits: The gradient at 0 is 1 instead of 0.
    """

    def before(x): return torch.abs(x)

    def after(x): return torch.where(x < 0, -x, x)


@rule(args={"x": "...", "y": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc",))
class algebra_abs_of_product:
    """Takes one absolute value of a product of absolute values.

    Why equivalent: |x| * |y| = |x * y| with the same rounding.
    """

    def before(x, y): return torch.abs(x) * torch.abs(y)

    def after(x, y): return torch.abs(x * y)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "floor"))
class algebra_ceil_as_floor:
    """Rounds up by rounding the negative down.

    Why equivalent: ceil(x) = -floor(-x), signs of zero included.
    """

    def before(x): return torch.ceil(x)

    def after(x): return -torch.floor(-x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "ceil"))
class algebra_floor_as_ceil:
    """Rounds down by rounding the negative up.

    Why equivalent: floor(x) = -ceil(-x).
    """

    def before(x): return torch.floor(x)

    def after(x): return -torch.ceil(-x)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("kc", "trunc"))
class algebra_trunc_as_where:
    """Truncates by floor and ceil.

    Why equivalent: Towards zero is down for positive and up for negative values.
    """

    def before(x): return torch.trunc(x)

    def after(x): return torch.where(x >= 0, torch.floor(x), torch.ceil(x))


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.EXACT_REAL, preserves=("dtype", "mutation"),
      targets=("kc", "exp"))
class algebra_exp_neg_as_reciprocal:
    """Takes exp(-x) as 1 / exp(x).

    Why equivalent: Equal over the reals.
    Limits: Far out one form is subnormal and the other 0.
    """

    def before(x): return torch.exp(-x)

    def after(x): return torch.exp(x).reciprocal()
