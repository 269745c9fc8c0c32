"""Names of dtypes, and which dtype operands of several give."""

from __future__ import annotations

from collections.abc import Iterable

FLOATS = ("float16", "bfloat16", "float32", "float64")
HALVES = ("float16", "bfloat16")
WHOLES = ("uint8", "int8", "int16", "int32", "int64")
COMPLEX = ("complex64", "complex128")
NUMBERS = (*WHOLES, *FLOATS)
ANY = ("bool", *NUMBERS, *COMPLEX)

ITEMSIZE = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4,
    "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
}  # fmt: skip
#: The complex numbers whose parts are like a float; programs hold none of 32 bits.
COMPLEX_OF = {"float16": "complex32", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}
#: The part of a complex number.
PART = {"complex64": "float32", "complex128": "float64"}


def sort_of(dtype: str) -> int:
    """0 bool, 1 whole numbers, 2 floats, 3 complex numbers."""
    return 0 if dtype == "bool" else 1 if dtype in WHOLES else 2 if dtype in FLOATS else 3


def promote(a: str, b: str) -> str:
    """The dtype that tensors with dimensions of these two give (``torch.promote_types``)."""
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda d: (sort_of(d), ITEMSIZE[d], d))
    if sort_of(high) == 3:
        return "complex128" if "complex128" in (low, high) or low == "float64" else "complex64"
    if sort_of(low) != sort_of(high):
        return high
    if {low, high} == set(HALVES):
        return "float32"
    if "uint8" in (low, high) and high in ("uint8", "int8"):
        return "int16"
    return high


def result_dtype(operands: Iterable[tuple[str, int | None]]) -> str:
    """The dtype that operands give, each a dtype and its rank, None for a number of Python (``torch.result_type``)."""
    found: dict[int, str] = {}
    for dtype, rank in operands:
        level = 0 if rank is None else 1 if rank == 0 else 2
        found[level] = promote(found[level], dtype) if level in found else dtype
    result = ""
    for level in sorted(found):
        result = _outranked(found[level], result)
    return result


def _outranked(higher: str, lower: str) -> str:
    if not lower or sort_of(higher) >= sort_of(lower):
        return higher
    if sort_of(higher) == 2:
        return COMPLEX_OF[higher]
    return promote(higher, lower)


def floated(dtype: str) -> str:
    """What functions that have no whole results make of a dtype."""
    return dtype if sort_of(dtype) > 1 else "float32"


def can_hold(target: str, source: str) -> bool:
    """Whether a result of dtype ``source`` may be written in place into ``target``."""
    return sort_of(source) <= sort_of(target)


def number_dtype(number: bool | int | float | complex) -> str:
    """The dtype that a number of Python counts as."""
    kinds = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
    return kinds[type(number)]
