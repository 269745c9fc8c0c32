"""The numbers that a rule's sides hand to operators, as they come out of what Python computes."""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.rewriting.instances import Instance
from fxmorph.torchapi.dispatch import DispatchMode, tree_leaves


class _Collecting(DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.numbers: set[float] = set()

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.numbers |= {value for value in tree_leaves((args, kwargs)) if isinstance(value, float)}
        return func(*args, **kwargs)


def passed_numbers(instance: Instance) -> tuple[float, ...]:
    """Floats among the arguments of operators, of both signs; none where a side raises before it asks for any."""
    collecting = _Collecting()
    for side in (instance.before, instance.after):
        try:
            with torch.no_grad(), collecting:
                side(instance.copies())
        except Exception:
            continue
    return tuple(sorted({sign * n for n in collecting.numbers for sign in (1.0, -1.0)}))
