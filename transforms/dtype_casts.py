"""Casts: exact round trips, explicit casts and bit views."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

ANY = FLOATS + INTS + ("bool",)


@rule(args={"x": "..."}, dtypes=("float32", "float16", "bfloat16"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "pointless_convert"))
class dtype_wide_trip_float64:
    """Converts to float64 and back.

    Why equivalent: Widening is exact.
    Provokes: ``pointless_convert`` merges the two casts into one.
    """

    def after(x): return x.to(torch.float64).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("float16", "bfloat16"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "pointless_convert"))
class dtype_wide_trip_float32:
    """Converts a 16-bit value to float32 and back.

    Why equivalent: Widening is exact.
    Provokes: The pair that autocast leaves everywhere.
    """

    def after(x): return x.float().to(x.dtype)


@rule(args={"x": "..."}, dtypes=("float16", "bfloat16"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "pointless_convert"))
class dtype_wide_trip_staged:
    """Converts a 16-bit value to float32, to float64, to float32 and back.

    Why equivalent: Each step is exact.
    Provokes: Chains of casts that are folded pairwise.
    """

    def after(x): return x.to(torch.float32).double().to(torch.float32).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("int32", "int16", "int8", "uint8", "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "pointless_convert"))
class dtype_int_trip_int64:
    """Converts an integer or mask to int64 and back.

    Why equivalent: Widening is exact.
    Provokes: Integer casts take part in ``pointless_convert`` too.
    """

    def after(x): return x.to(torch.int64).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("int32", "int16", "int8", "uint8", "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "kc"))
class dtype_int_trip_float64:
    """Converts an integer of up to 32 bits to float64 and back.

    Why equivalent: float64 holds 53 bits.
    Provokes: Integer through floating point: a cast pair that must not be folded blindly.
    """

    def after(x): return x.double().to(x.dtype)


@rule(args={"x": "..."}, dtypes=("int16", "int8", "uint8", "bool"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "kc"))
class dtype_int_trip_float32:
    """Converts an integer of up to 16 bits to float32 and back.

    Why equivalent: float32 holds 24 bits.
    """

    def after(x): return x.float().to(x.dtype)


@rule(args={"x": "..."}, dtypes=("int8", "uint8"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "kc"))
class dtype_int64_trip_wrapped:
    """Adds 256 in int32 and wraps back to 8 bits.

    Why equivalent: Conversion to 8 bits takes the value modulo 256.
    Provokes: A cast that must really truncate.
    """

    def after(x): return (x.to(torch.int32) + 256).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("bool",), site="value", claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot",))
class dtype_bool_trip_uint8:
    """Converts a mask to uint8 and back.

    Why equivalent: False and True are 0 and 1.
    """

    def after(x): return x.to(torch.uint8).bool()


@rule(args={"x": "..."}, dtypes=("bool",), site="value", claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot", "kc"))
class dtype_bool_trip_scaled:
    """Converts a mask to int8, multiplies by 2 and converts back.

    Why equivalent: Every nonzero number is True.
    Provokes: A cast to bool of a value other than 0 and 1 must normalise.
    """

    def after(x): return (x.to(torch.int8) * 2).to(torch.bool)


@rule(args={"x": "..."}, dtypes=("bool",), site="value", claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot", "kc"))
class dtype_bool_trip_half:
    """Converts a mask to float, halves it and converts back.

    Why equivalent: 0.5 is True: conversion to bool compares with 0 and does not truncate first.
    """

    def after(x): return (x.to(torch.float32) * 0.5).to(torch.bool)


@rule(args={"x": "..."}, dtypes=("bool",), site="value", claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot", "kc"))
class dtype_bool_trip_compare:
    """Converts a mask to bfloat16 and compares with 0.

    Why equivalent: 0 and 1 are exact.
    """

    def after(x): return x.to(torch.bfloat16) != 0


@rule(args={"x": "..."}, where=["not x.requires_grad"], dtypes=("float32",), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("iot", "ilp", "view_dtype"))
class dtype_view_bits32:
    """Views float32 as int32 and back.

    Why equivalent: The same bits and memory.
    Provokes: view(dtype) is a bitcast that must not be taken for a conversion.
    """

    def after(x): return x.view(torch.int32).view(torch.float32)


@rule(args={"x": "..."}, where=["not x.requires_grad"], dtypes=("float16", "bfloat16"), site="value",
      claim=Level.BIT_EXACT, preserves=("dtype", "stride", "alias", "mutation"),
      targets=("iot", "ilp", "view_dtype"))
class dtype_view_bits16:
    """Views a 16-bit float as int16 and back.

    Why equivalent: The same bits and memory.
    Provokes: 16-bit values live as float32 inside kernels, where a bitcast needs a real rounding.
    """

    def after(x): return x.view(torch.int16).view(x.dtype)


@rule(args={"x": "..."}, where=["not x.requires_grad"], dtypes=("float32", "float16", "bfloat16"), site="value",
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation"), targets=("iot", "kc", "view_dtype"))
class dtype_view_bits_xor:
    """Flips the lowest bit of the representation twice, as an integer.

    Why equivalent: xor is its own inverse.
    Provokes: Pointwise code between two bitcasts in one kernel.
    """

    def after(x):
        bits = torch.int32 if x.dtype == torch.float32 else torch.int16
        return ((x.view(bits) ^ 1) ^ 1).view(x.dtype)


@rule(args={"x": "... n"}, where=["x.numel > 0", "x.contiguous", "x.stride[-1] == 1", "not x.requires_grad"],
      dtypes=("float32", "float16", "int32", "int64"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("iot", "ilp", "view_dtype"))
class dtype_view_bytes:
    """Views the value as bytes and back.

    Why equivalent: The same memory with a longer last dimension in between.
    Provokes: view(dtype) of another size changes shape and strides.
    """

    def after(x): return x.view(torch.uint8).view(x.dtype)


@rule(args={"x": "..."}, where=["not x.requires_grad"], dtypes=("float32",), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "kc", "view_dtype"))
class dtype_sign_bit_neg:
    """Negates by flipping the sign bit.

    Why equivalent: IEEE negation is a flip of the sign bit.
    """

    def before(x): return -x

    def after(x): return (x.view(torch.int32) ^ -2147483648).view(torch.float32)


@rule(args={"x": "..."}, dtypes=("int8", "uint8"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "stride", "alias", "mutation"), targets=("iot", "ilp", "view_dtype"))
class dtype_int_reinterpret:
    """Views 8-bit integers with the other signedness and back.

    Why equivalent: The same bits and memory.
    """

    def after(x): return x.view(torch.uint8 if x.dtype == torch.int8 else torch.int8).view(x.dtype)


@rule(args={"x": "..."}, dtypes=("int8", "uint8"), site="value", claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "pointless_convert"))
class dtype_int_convert_signedness:
    """Converts 8-bit integers to the other signedness and back.

    Why equivalent: Both conversions wrap modulo 256.
    Provokes: Not a widening pair.
    """

    def after(x): return x.to(torch.uint8 if x.dtype == torch.int8 else torch.int8).to(x.dtype)


@rule(args={"x": "..."}, dtypes=("float32", "float16", "bfloat16"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iot", "pointless_convert"))
class dtype_double_cast:
    """Converts to float64 in two steps, through float32.

    Why equivalent: Both steps widen.
    Provokes: Folding the chain must keep the last dtype.
    """

    def before(x): return x.to(torch.float64)

    def after(x): return x.to(torch.float32).to(torch.float64)


@rule(args={"x": "..."}, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation"),
      targets=("iot", "kc"))
class dtype_float_cast_of_mask:
    """Converts a mask to float by selecting 1.0 or 0.0.

    Why equivalent: By definition of the conversion.
    """

    def before(x): return x.to(torch.float32)

    def after(x):
        one = torch.ones(x.shape, device=x.device, dtype=torch.float32)
        return torch.where(x, one, torch.zeros_like(one))


@rule(args={"x": "..."}, dtypes=("bool", "uint8", "int8", "int16", "int32"), claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation"), targets=("iot", "pointless_convert"))
class dtype_long_cast_staged:
    """Converts to int64 through int32.

    Why equivalent: Both steps widen.
    """

    def before(x): return x.to(torch.int64)

    def after(x): return x.to(torch.int32).to(torch.int64)


@rule(args={"x": "..."}, dtypes=("float16", "bfloat16", "float64", "int64", "int32", "bool"),
      claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("iot",))
class dtype_float_cast_as_type_as:
    """Converts to float32 by copy_ into a float32 buffer.

    Why equivalent: copy_ converts like to.
    Provokes: A cast inside a functionalised copy.
    """

    def before(x): return x.to(torch.float32)

    def after(x): return torch.zeros_like(x, dtype=torch.float32).copy_(x)
