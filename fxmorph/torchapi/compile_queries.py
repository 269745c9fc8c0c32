"""What a program hears that asks whether it is being compiled (``torch.compiler.is_compiling``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType

import torch
import torch._dynamo.external_utils

_NAMES = (
    (torch.compiler, "is_compiling"),
    (torch.compiler, "is_dynamo_compiling"),
    (torch._dynamo.external_utils, "is_compiling"),
    (torch._utils, "is_compiling"),
)
#: Those that the release has as plain functions; of some it has wrappers, which call others of them.
_QUERIES = [
    f
    for module, name in _NAMES
    if isinstance(f := getattr(module, name, None), FunctionType) and not f.__code__.co_freevars
]
#: Of torch itself, what hears what programs hear.  Compiled optimisers count their steps in tensors of float32, eager
#: ones in numbers of Python: ``1 - beta2**step`` has five digits there in the first steps.
_AS_PROGRAMS = "torch.optim."
#: Where the modules go whose programs ask while yes is the answer.
_askers: list[set[str]] = []


def _asks() -> bool:
    """Its code takes the place of a query's: whoever imported the function by its name calls it too."""
    import sys

    from fxmorph.torchapi.compile_queries import answer

    return answer(sys._getframe(1).f_globals.get("__name__", ""))


def answer(module: str) -> bool:
    """Yes to a program, and to optimisers; to the rest of torch what eager execution is told."""
    if module.partition(".")[0] == "torch" and not module.startswith(_AS_PROGRAMS):
        return False
    _askers[-1].add(module)
    return True


@contextlib.contextmanager
def told_compiled(askers: set[str]) -> Iterator[None]:
    """Programs that run eagerly hear that they are compiled; ``askers`` is given the modules that ask."""
    codes = [query.__code__ for query in _QUERIES]
    _askers.append(askers)
    for query in _QUERIES:
        query.__code__ = _asks.__code__
    try:
        yield
    finally:
        for query, code in zip(_QUERIES, codes, strict=True):
            query.__code__ = code
        _askers.pop()
