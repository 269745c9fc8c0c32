"""Operators that a seed registers with ``torch.library``: they live while they are held, and one holder has a name.

What makes a ``Library`` (``custom_op``, ``define`` and ``register_fake`` do too) takes the names away from whoever
made them before, since torch has one table for the whole process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import operator_schemas


@contextlib.contextmanager
def noting_libraries(before: Callable[[str], None]) -> Iterator[list[torch.library.Library]]:
    """The libraries that are made inside; ``before`` is called with the namespace of each before it is made."""
    made: list[torch.library.Library] = []
    init = torch.library.Library.__init__

    def noted(self: torch.library.Library, ns: str, *args: Any, **kwargs: Any) -> None:
        before(ns)
        init(self, ns, *args, **kwargs)
        made.append(self)

    torch.library.Library.__init__ = noted  # type: ignore[method-assign]
    try:
        yield made
    finally:
        torch.library.Library.__init__ = init  # type: ignore[method-assign]


def overrides(library: torch.library.Library) -> bool:
    """Whether it changes operators that are not its own, which all programs would see."""
    return bool(library.kind == "IMPL")


def forget(libraries: list[torch.library.Library]) -> None:
    """Take the operators out of torch again, and what it remembers of their signatures by name."""
    signatures = getattr(operator_schemas, "_SCHEMA_TO_SIGNATURE_CACHE", {})
    for library in libraries:
        for key in [key for key in signatures if key[0].startswith(f"{library.ns}::")]:
            del signatures[key]
        library._destroy()
        # Else torch takes them for defined until the library is collected.
        getattr(torch.library, "_defs", set()).difference_update(library._op_defs)
