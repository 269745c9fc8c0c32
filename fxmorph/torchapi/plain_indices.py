"""Index expressions: printed by us, left as they were lowered, vectors along one dimension."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import sympy


@dataclass(frozen=True)
class _Language:
    """How quotients and remainders of integers are written: rounded down, as those of ``Mod`` and ``ModularIndexing``
    may be that have no negative parts."""

    number: str
    divide: str
    remainder: str
    of_naturals: str


#: C++'s own operators round towards zero.
_CPP_DIVIDE = "c10::div_floor_integer(static_cast<int64_t>({0}), static_cast<int64_t>({1}))"
_CPP = _Language(
    "({0}L)",
    _CPP_DIVIDE,
    f"(static_cast<int64_t>({{0}}) - static_cast<int64_t>({{1}}) * {_CPP_DIVIDE})",
    "(static_cast<int64_t>({0}) % static_cast<int64_t>({1}))",
)
_PYTHON = _Language("({0})", "({0} // {1})", "({0} % {1})", "({0} % {1})")


def plain_indices() -> AbstractContextManager[None]:
    """Sums, products, quotients and remainders of integers are printed by us, with a bracket around each."""
    from torch.utils._sympy.printers import CppPrinter

    return _printed(CppPrinter, _CPP)


def plain_sizes_in_python() -> AbstractContextManager[None]:
    """The same of sizes, strides and offsets in the Python text around kernels."""
    from torch._inductor.codegen.common import PythonPrinter  # guards have their own, with other names of symbols

    return _printed(PythonPrinter, _PYTHON)


@contextlib.contextmanager
def _printed(printer: type, language: _Language) -> Iterator[None]:
    original: Any = printer._print  # type: ignore[attr-defined]

    @functools.wraps(original)
    def print_(self: Any, expr: Any, **kwargs: Any) -> Any:
        return _text(expr, language) or original(self, expr, **kwargs)

    with mock.patch.object(printer, "_print", print_):
        yield


@contextlib.contextmanager
def unsimplified_indices() -> Iterator[None]:
    """What is known of the ranges of loops simplifies no index."""
    from torch._inductor.sizevars import SizeVarAllocator

    def left(self: Any, expr: Any, var_ranges: Any) -> Any:
        return self.simplify(expr)

    with mock.patch.object(SizeVarAllocator, "_simplify_with_ranges", left):
        yield


@contextlib.contextmanager
def one_dimensional_tiles() -> Iterator[None]:
    """Vectors lie along one dimension: no tile is transposed."""
    from torch._inductor.codegen.cpp import TilingSelect

    original = TilingSelect.select_tiling

    @functools.wraps(original)
    def select(self: Any, *args: Any, **kwargs: Any) -> Any:
        factors, indices, *more = original(self, *args, **kwargs)
        return (factors[:1], indices[:1], *more) if len(indices) > 1 else (factors, indices, *more)

    with mock.patch.object(TilingSelect, original.__name__, select):
        yield


def _text(expr: Any, language: _Language) -> str:
    """The text of an expression; "" of one that is not about integers, or that holds something else."""
    if isinstance(expr, sympy.Symbol):
        return str(expr.name)
    if isinstance(expr, sympy.Integer):
        return language.number.format(int(expr)) if abs(int(expr)) < 1 << 62 else ""
    if not getattr(expr, "is_integer", False):
        return ""
    parts = [_text(a, language) for a in expr.args]
    if not parts or not all(parts):
        return ""
    kind = type(expr).__name__
    if kind in ("Add", "Mul"):
        return f"({(' + ' if kind == 'Add' else ' * ').join(parts)})"
    if kind in ("FloorDiv", "CleanDiv"):
        return language.divide.format(*parts)
    if kind == "PythonMod":
        return language.remainder.format(*parts)
    if kind == "Mod":
        return language.of_naturals.format(*parts)
    if kind == "ModularIndexing":
        return language.of_naturals.format(language.divide.format(*parts[:2]), parts[2])
    return ""
