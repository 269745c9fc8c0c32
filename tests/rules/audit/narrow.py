"""Integers inside float rules that wrap, narrowing casts, shifts and integer division."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule

F = torch.nn.functional
KEPT = ("dtype", "mutation")


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.EXACT_REAL, preserves=KEPT)
class narrow_trunc_via_int8:
    """Truncates by a cast to int8 and back."""

    def before(x):
        return torch.trunc(x)

    def after(x):
        return x.to(torch.int16).to(torch.int8).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("float64",), claim=Level.EXACT_REAL, preserves=KEPT)
class narrow_trunc_via_int32:
    """Truncates by a cast to int32 and back."""

    def before(x):
        return torch.trunc(x)

    def after(x):
        return x.to(torch.int64).to(torch.int32).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.EXACT_REAL, preserves=KEPT)
class narrow_floor_via_int64:
    """Floors by a cast to int64 and back."""

    def before(x):
        return torch.floor(x)

    def after(x):
        return x.to(torch.int64).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("int16",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_int16_square_then_float:
    """Squares before the conversion to float32 rather than after it."""

    def before(x):
        return x.to(torch.float32) * x.to(torch.float32)

    def after(x):
        return (x * x).to(torch.float32)


@rule(args={"x": "...", "y": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_uint8_absolute_difference:
    """Takes the difference of pixels before the conversion."""

    def before(x, y):
        return (x.to(torch.float32) - y.to(torch.float32)).abs()

    def after(x, y):
        return (x - y).to(torch.float32).abs()


@rule(args={"x": "...", "y": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_uint8_average:
    """Averages two images in uint8."""

    def before(x, y):
        return torch.floor((x.to(torch.float32) + y.to(torch.float32)) / 2)

    def after(x, y):
        return ((x + y) // 2).to(torch.float32)


@rule(args={"x": "..."}, dtypes=("int8",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_int8_neg_then_float:
    """Negates before it widens."""

    def before(x):
        return -(x.to(torch.int32))

    def after(x):
        return (-x).to(torch.int32)


@rule(args={"x": "..."}, dtypes=("int8",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_int8_abs_then_float:
    """Takes the absolute value before the dequantising cast."""

    def before(x):
        return x.to(torch.float32).abs()

    def after(x):
        return x.abs().to(torch.float32)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int32", "int64"),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_fmod_as_percent:
    """Takes fmod of integers by the % operator."""

    def before(x, y):
        return torch.fmod(x, y)

    def after(x, y):
        return x % y


@rule(args={"x": "..."}, dtypes=("int32", "int16", "int8", "int64"), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_trunc_div_by_shift:
    """Divides by four by a shift."""

    def before(x):
        return torch.div(x, 4, rounding_mode="trunc")

    def after(x):
        return x >> 2


@rule(args={"x": "..."}, dtypes=("int8", "uint8", "int16"), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_shift_before_widening:
    """Scales by 16 with a shift in the narrow type."""

    def before(x):
        return x.to(torch.int32) * 16

    def after(x):
        return (x << 4).to(torch.int32)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int32",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_shift_as_power_quotient:
    """Shifts right by y as a floor division by 1 << y."""

    def before(x, y):
        return x >> y

    def after(x, y):
        return torch.div(x, torch.ones_like(y) << y, rounding_mode="floor")


@rule(args={"x": "... n"}, where=["n >= 1"], dtypes=("int32", "int64"), claim=Level.EXACT_REAL, preserves=KEPT)
class narrow_mean_by_integer_division:
    """Takes the mean as the integer sum divided by the length."""

    def before(x):
        return x.to(torch.float64).mean(-1)

    def after(x):
        return (x.sum(-1) // x.shape[-1]).to(torch.float64)


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_clamp_after_uint8_cast:
    """Clamps after the conversion to uint8."""

    def before(x):
        return x.clamp(0, 255).to(torch.uint8)

    def after(x):
        return x.to(torch.int32).to(torch.uint8).clamp(0, 255)


@rule(
    args={"x": "...", "y": "..."},
    dtypes=("float32", "float64"),
    assumes=("finite", "nonzero"),
    claim=Level.UNDER_PRECONDITION,
    preserves=KEPT,
)
class narrow_floor_divide_as_floor_of_quotient:
    """Takes floor_divide as the floor of the quotient."""

    def before(x, y):
        return torch.floor_divide(x, y)

    def after(x, y):
        return torch.floor(x / y)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int32",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_int_floor_division_through_float32:
    """Divides integers as floats and floors."""

    def before(x, y):
        return torch.div(x, y, rounding_mode="floor")

    def after(x, y):
        return torch.floor(x / y).to(torch.int32)


@rule(args={"x": "..."}, dtypes=("uint8",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_zero_point_in_uint8:
    """Subtracts the zero point before the conversion."""

    def before(x):
        return x.to(torch.float32) - 128

    def after(x):
        return (x - 128).to(torch.float32)


@rule(
    args={"x": "... n", "y": "... n"},
    where=["x.shape == y.shape"],
    dtypes=("int8",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_int8_dot_product:
    """Multiplies in int8 and accumulates in int32."""

    def before(x, y):
        return (x.to(torch.int32) * y.to(torch.int32)).sum(-1)

    def after(x, y):
        return (x * y).to(torch.int32).sum(-1)


@rule(args={"x": "..."}, site="value", dtypes=("int16",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_int16_trip_through_half:
    """Converts a 16-bit integer to a 16-bit float and back."""

    def after(x):
        return x.to(torch.float16).to(torch.int16)


@rule(args={"x": "..."}, site="value", dtypes=("int64",), claim=Level.BIT_EXACT, preserves=KEPT)
class narrow_int64_trip_through_double:
    """Converts int64 to float64 and back."""

    def after(x):
        return x.to(torch.float64).to(torch.int64)


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int32",),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_average_by_shift:
    """Averages two int32 by a sum and a shift in int32."""

    def before(x, y):
        return ((x.to(torch.int64) + y.to(torch.int64)) >> 1).to(torch.int32)

    def after(x, y):
        return (x + y) >> 1


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int64", "int32"),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_less_by_difference:
    """Compares integers by the sign of the difference."""

    def before(x, y):
        return x < y

    def after(x, y):
        return (x - y) < 0


@rule(
    args={"x": "...", "y": "..."},
    where=["x.shape == y.shape"],
    dtypes=("int32", "int16", "int8"),
    claim=Level.BIT_EXACT,
    preserves=KEPT,
)
class narrow_distance_by_abs:
    """Takes larger less smaller as the absolute difference, then widens."""

    def before(x, y):
        return torch.maximum(x, y).to(torch.int64) - torch.minimum(x, y).to(torch.int64)

    def after(x, y):
        return (x - y).abs().to(torch.int64)
