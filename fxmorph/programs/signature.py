"""What makes two exceptions the same: type, innermost frame inside torch, operator."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from fxmorph.core.versions import home_of

#: How Inductor and Dynamo name the operator that they were at.
_OPERATORS = (
    re.compile(r"target: ([\w.]+)"),
    re.compile(r"call_(?:function|method) (?:<built-in (?:method|function) )?([\w.]+)"),
    re.compile(r"(aten[.:]+[\w.]+)"),
)


@dataclass(frozen=True)
class Signature:
    """``frame`` is ``torch/_inductor/lowering.py:clamp``, without line numbers, which change with releases."""

    type: str
    frame: str = ""
    operator: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.type, self.frame, self.operator)))


def signature_of(error: BaseException) -> Signature:
    """Of the innermost exception of a chain, which must still have its traceback."""
    chain = list(_chain(error))
    frame = next(filter(None, map(_innermost_frame, reversed(chain))), "")
    operator = next(filter(None, (_operator(str(e)) for e in chain)), "")
    return Signature(type(chain[-1]).__name__, frame, operator)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """From what was raised to its first cause."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        inner = getattr(link, "inner_exception", None)
        link = inner if isinstance(inner, BaseException) else link.__cause__


def _innermost_frame(error: BaseException) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        inside = frame.filename.removeprefix(f"{home_of('torch')}/")
        if inside != frame.filename:
            return f"torch/{inside}:{frame.name}"
    return ""


def _operator(text: str) -> str:
    return next((m[1] for pattern in _OPERATORS if (m := pattern.search(text))), "")
