"""Steps of Inductor's scheduler that drop, order or join nodes, each of which may be held back."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


def _scheduler() -> Any:
    from torch._inductor.scheduler import Scheduler

    return Scheduler


def _nodes(value: Any) -> list[str] | None:
    """Names of scheduler nodes in a list of them, with what each holds; None where the value is none."""
    if not isinstance(value, list) or not all(hasattr(n, "get_nodes") for n in value):
        return None
    return ["+".join(part.get_name() for part in n.get_nodes()) for n in value]


@contextlib.contextmanager
def scheduler_steps() -> Iterator[list[str]]:
    """Names of the methods that changed the list of nodes in compiles inside, the last first.

    One that calls another is named after it.
    """
    found: list[str] = []

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = _nodes(args[0]) if args else None
            before = _nodes(getattr(self, "nodes", None))
            result = original(self, *args, **kwargs)
            after = _nodes(getattr(self, "nodes", None))
            made = _nodes(result)
            if (before is not None and before != after) or (given and made is not None and made != given):
                if name in found:
                    found.remove(name)
                found.append(name)
            return result

        return method

    with contextlib.ExitStack() as stack:
        for name, function in _methods():
            stack.enter_context(mock.patch.object(_scheduler(), name, watched(name, function)))
        yield found


def _methods() -> list[tuple[str, Callable[..., Any]]]:
    """Methods of the scheduler but for those that make it."""
    plain = [(n, f) for n, f in vars(_scheduler()).items() if callable(f) and hasattr(f, "__code__")]
    return [(n, f) for n, f in plain if not n.startswith("__") and n not in ("_init", "codegen", "_codegen")]


@contextlib.contextmanager
def without_scheduler_step(name: str) -> Iterator[None]:
    """The method of this name leaves its nodes as they are."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args else None

    with mock.patch.object(_scheduler(), name, method):
        yield
