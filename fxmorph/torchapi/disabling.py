"""Parts of the compiler taken away: decompositions, lowerings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

from fxmorph.torchapi.decompose import without_python_decomposition
from fxmorph.torchapi.dispatch import OpOverload

PREFIX = "decomposition."


def decomposition_units() -> dict[str, Any]:
    """Keys of Inductor's decomposition table by unit name."""
    from torch._inductor import decomposition

    return {f"{PREFIX}{key}": key for key in decomposition.decompositions if isinstance(key, OpOverload)}


@contextlib.contextmanager
def _table(change: Callable[[dict[Any, Any]], None]) -> Iterator[None]:
    """Inductor's decomposition table changed in place, as every holder of it must see."""
    from torch._inductor import decomposition

    table = decomposition.decompositions
    forget: Any = getattr(decomposition.fast_random_decomps, "cache_clear", lambda: None)
    old = dict(table)
    try:
        change(table)
        forget()
        yield
    finally:
        table.clear()
        table.update(old)
        forget()


@contextlib.contextmanager
def without_decompositions(units: Collection[str] | None) -> Iterator[None]:
    """The operators of these units stay as they are; None: all do that the table has."""
    keys = decomposition_units()

    def drop(table: dict[Any, Any]) -> None:
        if units is None:
            table.clear()
        for unit in units or ():
            table.pop(keys.get(unit), None)

    with contextlib.ExitStack() as stack:
        for unit in units or ():
            stack.enter_context(without_python_decomposition(unit.removeprefix(PREFIX)))
        stack.enter_context(_table(drop))
        yield


@contextlib.contextmanager
def decompositions_used() -> Iterator[list[str]]:
    """Units of the decompositions that compiles call, outer before inner, in order of the calls."""
    used: list[str] = []

    def recording(unit: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            used.append(unit)
            return function(*args, **kwargs)

        return recorded

    def wrap(table: dict[Any, Any]) -> None:
        for key, function in list(table.items()):
            if isinstance(key, OpOverload):
                table[key] = recording(f"{PREFIX}{key}", function)

    with _table(wrap):
        yield used
