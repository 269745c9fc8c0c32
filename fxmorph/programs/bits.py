"""Comparing values of any dtype bit by bit: torch has next to no kernels for some dtypes.

8-bit floats have no arithmetic and no ``signbit``: float32 holds all of their values.  Packed 4-bit floats and
quantised tensors are compared by their bits.  Unsigned integers beyond 8 bits promote with nothing.
"""

from __future__ import annotations

import torch

from fxmorph.programs.inputs import is_float_dtype

#: Dtypes of several numbers in a byte.
PACKED = frozenset(d for d in (getattr(torch, "float4_e2m1fn_x2", None),) if d is not None)
#: An integer dtype as wide as a number.
_INTEGER_OF_WIDTH = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def is_narrow(dtype: torch.dtype) -> bool:
    """A float of 8 bits."""
    return dtype.is_floating_point and dtype.itemsize == 1 and dtype not in PACKED


def plain(t: torch.Tensor) -> torch.Tensor:
    """The same numbers in a dtype that can be computed with; of what holds none the bits, as integers."""
    if t.is_quantized:
        return t.int_repr()
    if t.dtype in PACKED:
        return t.view(torch.uint8)
    return t.float() if is_narrow(t.dtype) else t


def unequal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two tensors of one shape and any dtypes hold different numbers; NaN differs from all."""
    a, b = plain(a), plain(b)
    if a.dtype == b.dtype:
        return a != b
    if a.is_complex() or b.is_complex():
        return a.to(torch.complex128) != b.to(torch.complex128)
    if is_float_dtype(a.dtype) or is_float_dtype(b.dtype):
        return a.double() != b.double()
    return (a.long() != b.long()) | (_beyond_long(a) != _beyond_long(b))


def other_numbers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two tensors of one shape and any dtypes hold different numbers; NaN is one, and so are the zeros."""
    return unequal(a, b) & ~(plain(a).isnan() & plain(b).isnan())


def _beyond_long(t: torch.Tensor) -> torch.Tensor:
    """Where an integer is too large for int64, which shows it as a negative one."""
    return t.long() < 0 if t.dtype == torch.uint64 else torch.zeros_like(t, dtype=torch.bool)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal shape, dtype and values; NaN equals NaN, and the sign of zero counts."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_quantized:
        return torch.equal(a, b)  # scales and zero points too
    a, b = plain(a), plain(b)
    if not is_float_dtype(a.dtype):
        return torch.equal(a, b)
    if a.is_complex():
        return same_bits(torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj()))
    whole = _INTEGER_OF_WIDTH[a.dtype.itemsize]
    if not a.is_neg() and not b.is_neg() and torch.equal(a.detach().view(whole), b.detach().view(whole)):
        return True  # the usual case, at a third of the time
    equal = (a == b) | (a.isnan() & b.isnan())
    return bool(equal.all()) and bool((a.signbit() == b.signbit())[~a.isnan()].all())


def neighbours(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The next numbers away from zero and towards it, in a floating-point dtype of 16 bits or more; 0 has none below.

    ``torch.nextafter`` has no kernel for float16.
    """
    bits = t.view(_INTEGER_OF_WIDTH[t.dtype.itemsize])
    return (bits + 1).view(t.dtype), torch.where(t == 0, bits, bits - 1).view(t.dtype)
