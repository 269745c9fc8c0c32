"""Integer and floating arguments together, and pairs of dtypes."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
SINGLE = ("float32", "float64")
IX = ("float32", "float64", "int64")
TAKES = ["x.dtype in ('float32', 'float64')", "i.dtype == 'int64'"]
KEPT = ("dtype", "mutation")


@rule(
    args={"x": "n", "i": "k"}, where=[*TAKES, "n >= 1"], dtypes=IX, mixed=True, claim=Level.INDEX_EXACT, preserves=KEPT
)
class mixed_index_clamped_at_zero:
    """Clamps indices at zero before it indexes."""

    def before(x, i):
        return x[i]

    def after(x, i):
        return x.index_select(0, i.clamp(min=0))


@rule(
    args={"x": "n", "i": "k"}, where=[*TAKES, "n >= 2"], dtypes=IX, mixed=True, claim=Level.INDEX_EXACT, preserves=KEPT
)
class mixed_take_of_absolute_index:
    """Takes elements at the absolute value of the index."""

    def before(x, i):
        return torch.take(x, i)

    def after(x, i):
        return x.index_select(0, i.abs().remainder(x.shape[0]))


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_power_of_mask:
    """Takes an integer power as a select."""

    def before(x, i):
        return torch.pow(x, i)

    def after(x, i):
        return torch.where(i == 0, torch.ones_like(x), x)


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    assumes=("finite",),
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class mixed_where_nonzero_as_product:
    """Keeps x where the integer mask is set, by a product."""

    def before(x, i):
        return torch.where(i != 0, x, torch.zeros_like(x))

    def after(x, i):
        return x * i


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_positive_as_bool:
    """Takes i > 0 as the truth of i."""

    def before(x, i):
        return torch.where(i > 0, x, -x)

    def after(x, i):
        return torch.where(i.bool(), x, -x)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("float16", "bfloat16"),
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_sum_in_dtype_of_first:
    """Converts the second operand to the dtype of the first."""

    def before(x, y):
        return x + y

    def after(x, y):
        return x + y.to(x.dtype)


@rule(
    args={"x": "...", "i": "..."},
    where=["x.dtype == 'float32'", "i.dtype == 'int64'", "x.shape == i.shape"],
    dtypes=("float32", "int64"),
    mixed=True,
    assumes=("finite",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_add_integer_in_double:
    """Adds an integer in float64 and rounds once."""

    def before(x, i):
        return x + i

    def after(x, i):
        return (x.to(torch.float64) + i).to(torch.float32)


@rule(
    args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=("bool",), claim=Level.BIT_EXACT, preserves=KEPT
)
class mixed_bool_add_then_int:
    """Counts two masks by adding them first."""

    def before(x, y):
        return x.to(torch.int32) + y.to(torch.int32)

    def after(x, y):
        return (x + y).to(torch.int32)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int64",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_int_quotient_in_double:
    """Divides integers in float64."""

    def before(x, y):
        return x / y

    def after(x, y):
        return (x.to(torch.float64) / y.to(torch.float64)).to(torch.float32)


@rule(
    args={"x": "n", "i": "k", "y": "k"},
    where=["x.dtype == y.dtype", *TAKES, "n >= 1"],
    dtypes=IX,
    mixed=True,
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class mixed_index_add_by_assignment:
    """Adds at indices by a read and an assignment."""

    def before(x, i, y):
        return x.index_add(0, i, y)

    def after(x, i, y):
        out = x.clone()
        out[i] = out[i] + y
        return out


@rule(
    args={"x": "n d", "i": "k"},
    where=[*TAKES, "n >= 1"],
    dtypes=IX,
    mixed=True,
    assumes=("finite",),
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class mixed_rows_by_one_hot_product:
    """Reads rows by a product with comparisons against arange."""

    def before(x, i):
        return x[i]

    def after(x, i):
        return (i.unsqueeze(-1) == torch.arange(x.shape[0], device=x.device)).to(x.dtype) @ x


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_ldexp_by_shift:
    """Scales by powers of two with a shift of one."""

    def before(x, i):
        return torch.ldexp(x, i)

    def after(x, i):
        return x * (torch.ones_like(i) << i)


@rule(
    args={"x": "n", "i": "n"},
    where=["x.dtype in ('float32', 'float64')", "i.dtype == 'uint8'", "n >= 2"],
    dtypes=("float32", "float64", "uint8"),
    mixed=True,
    claim=Level.INDEX_EXACT,
    preserves=KEPT,
)
class mixed_uint8_index:
    """Indexes by uint8 without the conversion to int64."""

    def before(x, i):
        return x[i.to(torch.int64)]

    def after(x, i):
        return x[i]


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_copysign_of_integer:
    """Takes copysign by the sign of an integer."""

    def before(x, i):
        return torch.copysign(x, i)

    def after(x, i):
        return x.abs() * (i * 2 - 1).sign().to(x.dtype)


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    assumes=("finite",),
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class mixed_remainder_by_truncation:
    """Takes the remainder by an integer through trunc."""

    def before(x, i):
        return torch.remainder(x, i)

    def after(x, i):
        return x - i * torch.trunc(x / i)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.dtype in ('float16', 'bfloat16')", "y.dtype == 'float32'", "x.shape == y.shape"],
    dtypes=("float16", "bfloat16", "float32"),
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_product_in_low_precision:
    """Multiplies in the lower precision of the two and widens."""

    def before(x, y):
        return x * y

    def after(x, y):
        return (x * y.to(x.dtype)).to(torch.float32)


@rule(
    args={"x": "...", "i": "..."},
    where=[*TAKES, "x.shape == i.shape"],
    dtypes=IX,
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_odd_by_fmod:
    """Negates at even places, odd by fmod."""

    def before(x, i):
        return torch.where(i % 2 == 1, x, -x)

    def after(x, i):
        return torch.where(torch.fmod(i, 2) == 1, x, -x)


@rule(
    args={"x": "n c", "i": "n"},
    where=[*TAKES, "n >= 1", "c >= 1"],
    dtypes=IX,
    mixed=True,
    assumes=("finite",),
    claim=Level.EXACT_REAL,
    preserves=KEPT,
)
class mixed_cross_entropy_by_gather:
    """Takes the cross entropy by a gather of the log softmax, with targets clamped at 0."""

    def before(x, i):
        return F.cross_entropy(x, i)

    def after(x, i):
        return -x.log_softmax(-1).gather(1, i.clamp(min=0).unsqueeze(1)).mean()


@rule(
    args={"x": "...", "m": "..."},
    where=["x.dtype in ('int32', 'int64')", "m.dtype == 'bool'", "x.shape == m.shape"],
    dtypes=("int32", "int64", "bool"),
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_mask_and_as_product:
    """Multiplies by a mask as a bitwise and."""

    def before(x, m):
        return x * m

    def after(x, m):
        return x & m


@rule(
    args={"x": "...", "i": "..."},
    where=["x.dtype == 'int32'", "i.dtype == 'int64'", "x.shape == i.shape"],
    dtypes=("int32", "int64"),
    mixed=True,
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class mixed_compare_in_int32:
    """Compares int32 with int64 in int32."""

    def before(x, i):
        return x < i

    def after(x, i):
        return x < i.to(torch.int32)
