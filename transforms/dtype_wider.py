"""Operations computed in a wider dtype and rounded once."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
LOW = ("float32", "float16", "bfloat16")
HALF = ("float16", "bfloat16")


@rule(args={"x": "...", "y": "..."}, dtypes=LOW, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "kc"))
class dtype_add_wide:
    """Adds in float64 and rounds once.

    Why equivalent: Double rounding is innocuous from 53 bits.
    Provokes: Casts around one operation in a kernel.
    """

    def before(x, y): return x + y

    def after(x, y): return (x.double() + y.double()).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, dtypes=LOW, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "kc"))
class dtype_mul_wide:
    """Multiplies in float64 and rounds once.

    Why equivalent: The product is exact in float64.
    """

    def before(x, y): return x * y

    def after(x, y): return (x.double() * y.double()).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, dtypes=HALF, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "kc", "emulate_precision_casts"))
class dtype_add_half_wide:
    """Adds 16-bit values in float32 and rounds.

    Why equivalent: What eager does itself.
    Provokes: Inductor may drop the rounding.
    """

    def before(x, y): return x + y

    def after(x, y): return (x.float() + y.float()).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, where=["x.ndim >= 1", "y.ndim >= 1"], dtypes=HALF, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_mul_mixed:
    """Multiplies a widened operand with a 16-bit one.

    Why equivalent: Promotion widens the other; one rounding at the end.
    """

    def before(x, y): return x * y

    def after(x, y): return (x.float() * y).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, dtypes=LOW, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "kc"))
class dtype_sub_wide:
    """Subtracts in float64 and rounds once.

    Why equivalent: Double rounding is innocuous.
    """

    def before(x, y): return x - y

    def after(x, y): return (x.double() - y.double()).to(x.dtype)


@rule(args={"x": "..."}, dtypes=LOW, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iot", "pointless_convert"))
class dtype_relu_wide:
    """Applies relu in float64.

    Why equivalent: relu selects; the casts are exact both ways.
    """

    def before(x): return F.relu(x)

    def after(x): return F.relu(x.double()).to(x.dtype)


@rule(args={"x": "..."}, dtypes=LOW, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iot",))
class dtype_neg_wide:
    """Negates in float64.

    Why equivalent: The cast to float64, the negation and the cast back are exact.
    """

    def before(x): return -x

    def after(x): return (-x.double()).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, dtypes=LOW, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_gt_wide:
    """Compares in float64.

    Why equivalent: Widening is monotone and exact.
    """

    def before(x, y): return x > y

    def after(x, y): return x.double() > y.double()


@rule(args={"x": "...", "y": "..."}, dtypes=("int32", "int16", "int8", "uint8", "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot",))
class dtype_eq_int_wide:
    """Compares integers for equality in int64.

    Why equivalent: Widening is exact.
    """

    def before(x, y): return x == y

    def after(x, y): return x.to(torch.int64) == y.to(torch.int64)


@rule(args={"x": "...", "y": "..."}, dtypes=("int32", "int16", "int8", "uint8"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot",))
class dtype_lt_int_as_double:
    """Compares integers of up to 32 bits in float64.

    Why equivalent: float64 holds them exactly.
    """

    def before(x, y): return x < y

    def after(x, y): return x.double() < y.double()


@rule(args={"x": "...", "y": "..."}, dtypes=("int32", "int16", "int8", "uint8"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "kc"))
class dtype_add_int_wide:
    """Adds integers in int64 and wraps back.

    Why equivalent: Conversion takes the sum modulo the size.
    Provokes: C promotes narrow integers to int.
    """

    def before(x, y): return x + y

    def after(x, y): return (x.to(torch.int64) + y.to(torch.int64)).to(x.dtype)


@rule(args={"x": "...", "y": "..."}, dtypes=("int16", "int8", "uint8"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "kc"))
class dtype_mul_int_wide:
    """Multiplies narrow integers in int32 and wraps back.

    Why equivalent: Modulo the size the products agree.
    """

    def before(x, y): return x * y

    def after(x, y): return (x.to(torch.int32) * y.to(torch.int32)).to(x.dtype)


@rule(args={"x": "..."}, dtypes=LOW, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iot", "kc"))
class dtype_exp_wide:
    """Computes exp in float64.

    Why equivalent: Equal over the reals.
    """

    def before(x): return torch.exp(x)

    def after(x): return torch.exp(x.double()).to(x.dtype)


@rule(args={"x": "..."}, dtypes=HALF, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iot", "emulate_precision_casts"))
class dtype_sigmoid_half_wide:
    """Computes the sigmoid of a 16-bit value in float32.

    Why equivalent: Equal over the reals.
    """

    def before(x): return torch.sigmoid(x)

    def after(x): return torch.sigmoid(x.float()).to(x.dtype)


@rule(args={"x": "..."}, where=["type(d) is int"], scalars={"d": None}, dtypes=HALF, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "softmax"))
class dtype_softmax_wide:
    """Computes softmax with dtype=float32 and casts back.

    Why equivalent: Equal over the reals.
    Provokes: The usual spelling in language models.
    """

    def before(x, d): return F.softmax(x, dim=d)

    def after(x, d): return F.softmax(x, dim=d, dtype=torch.float32).to(x.dtype)


@rule(args={"x": "..."}, where=["type(d) is int"], scalars={"d": None}, dtypes=LOW, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "softmax"))
class dtype_softmax_cast_first:
    """Computes softmax in float64.

    Why equivalent: Equal over the reals.
    """

    def before(x, d): return F.softmax(x, dim=d)

    def after(x, d): return F.softmax(x.double(), dim=d).type_as(x)


@rule(args={"x": "..."}, where=["type(d) is int"], scalars={"d": None}, dtypes=LOW, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "kc"))
class dtype_sum_wide:
    """Sums over one dimension with dtype=float64 and casts back.

    Why equivalent: Equal over the reals.
    """

    def before(x, d): return x.sum(d)

    def after(x, d): return x.sum(d, dtype=torch.float64).to(x.dtype)


@rule(args={"x": "..."}, dtypes=LOW, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("iot", "kc"))
class dtype_sum_all_wide:
    """Sums everything in float64 and casts back.

    Why equivalent: Equal over the reals.
    """

    def before(x): return x.sum()

    def after(x): return x.double().sum().to(x.dtype)


@rule(args={"x": "..."}, where=["type(d) is int", "x.numel > 0"], scalars={"d": None}, dtypes=LOW,
      claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"), targets=("iot", "iod", "mean"))
class dtype_mean_wide:
    """Averages over one dimension with dtype=float64 and casts back.

    Why equivalent: Equal over the reals.
    """

    def before(x, d): return x.mean(d)

    def after(x, d): return x.mean(d, dtype=torch.float64).to(x.dtype)


@rule(args={"a": "... m k", "b": "k n"}, dtypes=("float32",), claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "kc"))
class dtype_matmul_wide:
    """Multiplies matrices in float64 and casts back.

    Why equivalent: Equal over the reals.
    """

    def before(a, b): return a @ b

    def after(a, b): return (a.double() @ b.double()).to(a.dtype)


@rule(args={"x": "..."}, where=["type(d) is int"], scalars={"d": None},
      dtypes=("int32", "int16", "int8", "uint8", "bool"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot",))
class dtype_sum_int_explicit:
    """Sums integers or a mask after a cast to int64.

    Why equivalent: sum of integers and bool accumulates in int64 anyway.
    """

    def before(x, d): return x.sum(d)

    def after(x, d): return x.to(torch.int64).sum(d)


@rule(args={"x": "..."}, dtypes=("int32", "int16", "int8", "uint8", "bool"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot",))
class dtype_sum_int_argument:
    """Sums everything with dtype=int64.

    Why equivalent: The default result dtype of integer sums, spelled out.
    """

    def before(x): return x.sum()

    def after(x): return x.sum(dtype=torch.int64)


@rule(args={"x": "..."}, where=["type(d) is int"], scalars={"d": None},
      dtypes=("int32", "int16", "int8", "uint8", "bool"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot", "pointless_cumsum_replacement"))
class dtype_cumsum_int_explicit:
    """Takes the running sum of integers or a mask after a cast to int64.

    Why equivalent: cumsum of integers and bool accumulates in int64 anyway.
    """

    def before(x, d): return torch.cumsum(x, d)

    def after(x, d): return torch.cumsum(x.to(torch.int64), d)


@rule(args={"x": "..."}, where=["type(d) is int"], scalars={"d": None},
      dtypes=("int32", "int16", "int8", "uint8", "bool"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot", "pointless_cumsum_replacement"))
class dtype_cumsum_int_argument:
    """Takes the running sum with dtype=int64.

    Why equivalent: The default result dtype, spelled out.
    """

    def before(x, d): return torch.cumsum(x, d)

    def after(x, d): return torch.cumsum(x, d, dtype=torch.int64)


@rule(args={"x": "...", "m": "..."}, where=["x.floating", "m.dtype == 'bool'"], dtypes=(*FLOATS, "bool"),
      mixed=True, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_mul_mask_explicit:
    """Converts a mask before it multiplies a float.

    Why equivalent: Promotion does the same.
    """

    def before(x, m): return x * m

    def after(x, m): return x * m.to(x.dtype)


@rule(args={"x": "...", "i": "..."}, where=["x.floating", "i.dtype in INTS"], dtypes=FLOATS + INTS, mixed=True,
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_add_int_explicit:
    """Converts an integer tensor before it is added to a float.

    Why equivalent: Promotion does the same.
    """

    def before(x, i): return x + i

    def after(x, i): return x + i.to(x.dtype)


@rule(args={"x": "...", "y": "..."},
      where=["x.floating", "y.floating", "x.dtype in ('float16', 'bfloat16')",
             "y.dtype in ('float32', 'float64')", "x.ndim >= 1", "y.ndim >= 1"], dtypes=FLOATS, mixed=True,
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_promote_explicit:
    """Widens the narrow operand of a mixed sum itself.

    Why equivalent: Promotion does the same for operands with dimensions.
    """

    def before(x, y): return x + y

    def after(x, y): return x.to(y.dtype) + y


@rule(args={"x": "..."}, where=["type(c) in (int, float)"], scalars={"c": None}, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_scalar_as_tensor:
    """Adds a 0-dim tensor of the same dtype instead of a number.

    Why equivalent: Addition rounds the number to the dtype of x both ways.
    """

    def before(x, c): return x + c

    def after(x, c): return x + torch.full((), c, dtype=x.dtype, device=x.device)


@rule(args={"x": "..."}, where=["type(c) in (int, float)", "x.ndim >= 1"], scalars={"c": None},
      dtypes=("float32", "float64"), claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("iot",))
class dtype_scalar_as_wide_tensor:
    """Multiplies by a 0-dim float64 tensor instead of a number.

    Why equivalent: A 0-dim tensor does not promote a tensor with dimensions of the same kind.
    """

    def before(x, c): return x * c

    def after(x, c): return x * torch.full((), c, dtype=torch.float64, device=x.device)
