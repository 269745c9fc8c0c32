"""What was done and seen while a case was judged, line by line, for ``fxmorph explain``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_lines: ContextVar[list[str] | None] = ContextVar("journal", default=None)


def note(text: str | Callable[[], str]) -> None:
    """Add a line, where somebody reads; a function is called only then."""
    lines = _lines.get()
    if lines is not None:
        lines.append(text if isinstance(text, str) else text())


@contextmanager
def noting(lines: list[str] | None) -> Iterator[None]:
    """Everything noted inside goes to the list, or nowhere."""
    token = _lines.set(lines)
    try:
        yield
    finally:
        _lines.reset(token)
