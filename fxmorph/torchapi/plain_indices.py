"""Index expressions: printed by us, left as they were lowered, loops left apart, vectors along one dimension."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import sympy

#: Division and remainder that round down: C++'s round towards zero, as those of ``Mod`` and ``ModularIndexing`` may.
_DIVIDE = "c10::div_floor_integer(static_cast<int64_t>({0}), static_cast<int64_t>({1}))"
_REMAINDER = "(static_cast<int64_t>({0}) - static_cast<int64_t>({1}) * " + _DIVIDE + ")"
_TRUNCATING = "(static_cast<int64_t>({0}) % static_cast<int64_t>({1}))"


@contextlib.contextmanager
def plain_indices() -> Iterator[None]:
    """Sums, products, quotients and remainders of integers are printed by us, with a bracket around each."""
    from torch.utils._sympy.printers import CppPrinter

    original: Any = CppPrinter._print

    @functools.wraps(original)
    def print_(self: Any, expr: Any, **kwargs: Any) -> Any:
        return _text(expr) or original(self, expr, **kwargs)

    with mock.patch.object(CppPrinter, "_print", print_):
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
def loops_apart() -> Iterator[None]:
    """No two loops of a kernel are made one."""
    from torch._inductor.sizevars import SizeVarAllocator

    def apart(self: Any, index_vars: Any, sizes: Any, index_formulas: Any) -> Any:
        return [self.simplify(size) for size in sizes], list, list

    with mock.patch.object(SizeVarAllocator, "_simplify_loops_impl", apart):
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


def _text(expr: Any) -> str:
    """C++ of an expression; "" of one that is not about integers, or that holds something else."""
    if isinstance(expr, sympy.Symbol):
        return str(expr.name)
    if isinstance(expr, sympy.Integer):
        return f"({int(expr)}L)" if abs(int(expr)) < 1 << 62 else ""
    if not getattr(expr, "is_integer", False):
        return ""
    parts = [_text(a) for a in expr.args]
    if not parts or not all(parts):
        return ""
    kind = type(expr).__name__
    if kind in ("Add", "Mul"):
        return f"({(' + ' if kind == 'Add' else ' * ').join(parts)})"
    if kind in ("FloorDiv", "CleanDiv"):
        return _DIVIDE.format(*parts)
    if kind == "PythonMod":
        return _REMAINDER.format(*parts)
    if kind == "Mod":
        return _TRUNCATING.format(*parts)
    if kind == "ModularIndexing":
        return _TRUNCATING.format(_DIVIDE.format(*parts[:2]), parts[2])
    return ""
