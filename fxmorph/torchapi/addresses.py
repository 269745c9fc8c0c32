"""Index expressions of Inductor's loops as numbers: the address of each iteration, over tensors of integers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

#: Loops of more iterations are not gone through.
_MOST = 1 << 20
#: Stands for what is known only when a kernel runs: an index that was read from memory.
_READ = 1009


def as_tensor(value: Any) -> torch.Tensor:
    """A number, or an operand of a kernel, as a tensor."""
    value = getattr(value, "value", value)
    if isinstance(value, sympy.Number):  # of sizes alone
        value = int(value) if value.is_Integer else float(value)
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


class Indices(PythonReferenceAnalysis):
    """Index expressions over tensors of integers."""

    @staticmethod
    def constant(c: Any, dtype: torch.dtype) -> Any:
        return {torch.int64: int, torch.bool: bool}.get(dtype, float)(c)

    @staticmethod
    def to_dtype(x: Any, dtype: torch.dtype) -> Any:
        return x.to(dtype) if isinstance(x, torch.Tensor) else {torch.float64: float, torch.int64: int}[dtype](x)

    @staticmethod
    def modular_indexing(x: Any, y: Any, z: Any) -> Any:
        return Indices.mod(x // y, z)

    @staticmethod
    def mod(x: Any, y: Any) -> Any:
        """As generated code has it, with the sign of what is divided: where that may be negative it is another one."""
        return torch.fmod(as_tensor(x), as_tensor(y))

    @staticmethod
    def truediv(x: Any, y: Any) -> Any:
        """In float64, as numbers of Python are divided."""
        tensors = isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor)
        return as_tensor(x).double() / as_tensor(y).double() if tensors else x / y

    int_truediv = truediv

    @staticmethod
    def identity(x: Any) -> Any:
        return x


def _over_tensors(function: Callable[..., Any]) -> Any:
    return staticmethod(lambda *operands: function(*(as_tensor(o) for o in operands)))


_FUNCTIONS: dict[str, Any] = {
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "where": torch.where,
    "and_": torch.logical_and,
    "or_": torch.logical_or,
    "not_": torch.logical_not,
    "floordiv": operator.floordiv,
}
for _name, _function in _FUNCTIONS.items():
    setattr(Indices, _name, _over_tensors(_function))


def grid(sizes: Sequence[int], shape: Sequence[int]) -> list[torch.Tensor]:
    """The number of each loop in each step of the nest, all of one ``shape``."""
    steps, loops = torch.arange(math.prod(sizes)), []
    for size in reversed(sizes):
        loops.append((steps % size).view(*shape))
        steps = steps // size
    return loops[::-1]


def number_of(size: Any, known: Mapping[Any, Any]) -> int:
    """A size as a number, where the values of its symbols are known."""
    return size if isinstance(size, int) else int(sympy_interp(Indices, dict(known), size))


def addresses(index: Any, loops: Mapping[Any, Any], sizes: Mapping[Any, int]) -> torch.Tensor | None:
    """The addresses of an index expression in the order of its loops, in one dimension; None of too many.

    ``loops`` are sizes by loop variable, the outermost first; ``sizes`` values of the program's symbolic sizes.
    """
    index = sympy.sympify(index)
    counts = [number_of(sympy.sympify(n), sizes) for n in loops.values()]
    if math.prod(counts) > _MOST:
        return None
    own: dict[Any, Any] = dict(zip(loops, grid(counts, (-1,)), strict=True))
    known = {s: own[s] if s in own else sizes.get(s, _READ) for s in index.free_symbols}
    made = as_tensor(sympy_interp(Indices, known, index))
    return made.to(torch.int64).expand(math.prod(counts))
