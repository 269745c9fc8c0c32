"""What single operations of Inductor's IR were called with, and gave, where kernels were interpreted."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Operation:
    """An operation of the IR as a kernel uses it: ``arguments`` with an :class:`Operand` for each tensor."""

    name: str
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Operand:
    """Tensor ``number`` among an operation's arguments; ``constant`` where it is one number of the kernel's text."""

    number: int
    dtype: torch.dtype
    constant: float | int | bool | None = None


@dataclass
class Noted:
    """Operands of the operations that were interpreted, a few calls of each, and what they gave."""

    calls: dict[Operation, list[tuple[list[torch.Tensor], torch.Tensor]]] = field(default_factory=dict)
    #: So many calls of one operation are kept.
    most: int = 4

    def note(self, name: str, args: Sequence[Any], keywords: Mapping[str, Any], result: Any) -> None:
        """Keep a call, unless enough of its kind are."""
        if not isinstance(result, torch.Tensor) or any(
            callable(a) or isinstance(a, tuple) for a in (*args, *keywords.values())
        ):
            return
        tensors: list[torch.Tensor] = []

        def slot(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if value.ndim == 0:
                number = value.item()
                # NaN is not itself: two calls with it would be two operations.
                return Operand(-1, value.dtype, math.nan if number != number else number)
            tensors.append(value)
            return Operand(len(tensors) - 1, value.dtype)

        operation = Operation(name, tuple(map(slot, args)), tuple((k, slot(v)) for k, v in sorted(keywords.items())))
        try:
            kept = self.calls.setdefault(operation, [])
        except TypeError:  # an argument that is neither tensor nor plain
            return
        if tensors and len(kept) < self.most:
            kept.append(([t.clone() for t in tensors], result.clone()))


#: Where calls are noted, if anywhere.
_noted: Noted | None = None


def current() -> Noted | None:
    """Where an interpreter is to note what it computes; None: nowhere."""
    return _noted


@contextlib.contextmanager
def operations_noted() -> Iterator[Noted]:
    """Calls of operations by kernels that are interpreted inside."""
    global _noted
    before, _noted = _noted, Noted()
    try:
        yield _noted
    finally:
        _noted = before
