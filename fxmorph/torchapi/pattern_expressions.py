"""Pattern expressions of Inductor's pattern matcher, as plain records.

An expression object that occurs twice in a pattern stands for one node of the graph: the records
keep that identity (:attr:`Call.number`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch._inductor import pattern_matcher


class UnknownExpression(ValueError):
    """A kind of pattern expression that this reader does not know; the message names it."""


@dataclass(frozen=True)
class Leaf:
    """Anything: an argument, by name where the pattern names it (equal names are equal nodes)."""

    name: str = ""


@dataclass(frozen=True)
class Call:
    """A node.

    ``targets`` are the functions (or method names, or module classes) that it may call; ``args`` is
    None where any arguments do.  ``users`` is how many nodes must read it, None for any number.
    """

    number: int
    op: str
    targets: tuple[Any, ...]
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any]
    users: int | None


@dataclass(frozen=True)
class Repeated:
    """A list whose elements all match (``ListOf``), or (``several``) one of several nodes that do."""

    element: Any
    several: bool = False


@dataclass(frozen=True)
class Outputs:
    """A pattern with several outputs; None for one that is not looked at."""

    members: tuple[Any, ...]


def expression_of(pattern: Any) -> Any:
    """The records of a ``PatternExpr``; raises :class:`UnknownExpression`.

    Constants stay as they are; lists and tuples are read element by element.
    """
    seen: dict[int, Any] = {}

    def read(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(read(v) for v in value)
        if not isinstance(value, pattern_matcher.PatternExpr):
            return value
        if id(value) not in seen:
            seen[id(value)] = made(value)
        return seen[id(value)]

    def made(value: Any) -> Any:
        name = type(value).__name__
        if name in ("Arg", "Ignored"):
            return Leaf()
        if name in ("KeywordArg", "ExclusiveKeywordArg"):
            return Leaf(value.name)
        if name == "ListOf":
            return Repeated(read(value.pattern))
        if name == "RepeatedExpr":
            return Repeated(read(value.inner_pattern), several=True)
        if name == "MultiOutputPattern":
            return Outputs(tuple(read(o) for o in value.outputs))
        if not hasattr(value, "fns"):
            raise UnknownExpression(name)
        users = value.users if isinstance(value.users, int) else None
        if not hasattr(value, "args"):
            return Call(id(value), value.op, tuple(value.fns), None, {}, users)
        kwargs = {k: read(v) for k, v in value.kwargs.items()}
        return Call(id(value), value.op, tuple(value.fns), tuple(map(read, value.args)), kwargs, users)

    return read(pattern)
