"""What Inductor decides about symbolic sizes: decided and guarded by us.

A kernel that was made for one size must not run for another.  While it lowers, Inductor makes sizes concrete, compares
them and relies on what follows from their ranges (``SizeVarAllocator``); each such answer has to be a guard of the
compiled program, or true of every size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import sympy


@contextlib.contextmanager
def plain_sizes(methods: Sequence[str]) -> Iterator[None]:
    """These methods of ``SizeVarAllocator``, of those that are in DECISIONS, are ours in compiles inside."""
    from torch._inductor.sizevars import SizeVarAllocator

    with contextlib.ExitStack() as stack:
        for name in methods:
            if hasattr(SizeVarAllocator, name):  # not every release has each
                stack.enter_context(mock.patch.object(SizeVarAllocator, name, DECISIONS[name]))
        yield


def _plainly(self: Any, expr: Any) -> Any:
    """The expression in symbols of the program's sizes alone."""
    return sympy.sympify(expr).subs(self.inv_precomputed_replacements)


def _guard_int(self: Any, expr: Any) -> int:
    expr = _plainly(self, expr)
    if expr.is_number:
        return int(expr)
    return int(self.shape_env.evaluate_expr(expr))


def _check(self: Any, expr: Any) -> None:
    expr = _plainly(self, expr)
    if expr is sympy.true:
        return
    if not self.shape_env.guard_or_defer_runtime_assert(expr, "a size that is relied on"):
        raise AssertionError(f"{expr} does not hold")


def _known(self: Any, expr: Any) -> bool:
    """Whether it holds of every size, by the ranges of symbols alone."""
    expr = _plainly(self, expr)
    if expr in (sympy.true, sympy.false):
        return bool(expr)
    return self.shape_env._maybe_evaluate_static(expr) in (True, sympy.true)


def _decide(self: Any, expr: Any, size_oblivious: bool = False, fallback_value: bool | None = None) -> Any:
    """What holds of the sizes at hand, with a guard; of a size that no input has what the caller falls back to."""
    return self.shape_env.evaluate_expr(_plainly(self, expr), fallback_value=fallback_value)


def _falling_back(value: bool) -> Callable[[Any, Any], Any]:
    return lambda self, expr: _decide(self, expr, fallback_value=value)


def _in_order(self: Any, left: Any, right: Any) -> tuple[Any, Any]:
    left, right = _plainly(self, left), _plainly(self, right)
    return (left, right) if _decide(self, sympy.Le(left, right)) else (right, left)


#: What is ours, by the method's name; none is called by those before it.
DECISIONS: dict[str, Callable[..., Any]] = {
    "statically_known_true": _known,
    "evaluate_expr": _decide,
    "guard_or_false": _falling_back(False),
    "guard_or_true": _falling_back(True),
    "check": _check,
    "evaluate_min": lambda self, left, right: _in_order(self, left, right)[0],
    "evaluate_max": lambda self, left, right: _in_order(self, left, right)[1],
    "guard_int": _guard_int,
}
