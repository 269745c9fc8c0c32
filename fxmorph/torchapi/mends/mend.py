"""What a mend is, and applying one.

A mend repairs exactly one known defect in this process and counts how often it made a difference.  It was written
for certain texts of torch's functions: where a release has others, it is not applied.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import torch


class Used:
    """How often a mend did what torch would not have done."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@dataclass(frozen=True)
class Mend:
    """``does`` says in a few words what is done now that was not.

    ``written_for`` maps functions of torch, ``module:qualified.name``, to the digests of those texts of them that
    the mend was tried with (:func:`text_digest`).  ``apply`` holds as long as its context.
    """

    name: str
    does: str
    written_for: Mapping[str, tuple[str, ...]]
    apply: Callable[[Used], AbstractContextManager[None]]

    def misfit(self) -> str:
        """Why it cannot be applied to this torch, or ""."""
        for place, digests in self.written_for.items():
            found = text_digest(place)
            if found not in digests:
                return (
                    f"torch {torch.__version__} has {'another' if found else 'no'} {place} than the mend was made for"
                )
        return ""


def text_digest(place: str) -> str:
    """12 hex digits of a function's text without comments and blank lines; "" where there is none.

    ``place`` is ``module:qualified.name``.
    """
    where, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(where)
        for part in name.split("."):
            found = getattr(found, part)
        text = inspect.getsource(inspect.unwrap(found))
    except (ImportError, AttributeError, OSError, TypeError):
        return ""
    lines = [line.rstrip() for line in textwrap.dedent(text).splitlines()]
    kept = [line for line in lines if line and not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


@contextlib.contextmanager
def replaced(*parts: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes of modules or objects have another value: (owner, name, value) each."""
    with ExitStack() as stack:
        for owner, name, value in parts:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


@contextlib.contextmanager
def replaced_items(table: Any, new: Mapping[Any, Any]) -> Iterator[None]:
    """Entries of a table have another value; all of them must be there."""
    old = {key: table[key] for key in new}
    table.update(new)
    try:
        yield
    finally:
        table.update(old)


@contextlib.contextmanager
def decomposed(made: Callable[[Callable[..., Any], Any], Callable[..., Any]], *operators: Any) -> Iterator[None]:
    """Of these overloads, where Inductor decomposes them, the decomposition is ``made`` of torch's and the overload."""
    from torch._inductor import decomposition

    table = decomposition.decompositions
    forget: Any = getattr(decomposition.fast_random_decomps, "cache_clear", lambda: None)
    try:
        with replaced_items(table, {op: made(table[op], op) for op in operators if op in table}):
            forget()
            yield
    finally:
        forget()
