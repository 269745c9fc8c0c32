"""Faults planted by an edit of the text of one of torch's functions, whoever holds the function."""

from __future__ import annotations
import __future__

import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


@contextlib.contextmanager
def planted_text(module: str, name: str, old: str, new: str) -> Iterator[None]:
    """The function ``name`` (or ``Class.name``) of ``module`` has ``new`` in the place of ``old``.

    Its code is exchanged, so tables and modules that hold the function see the fault too.  Raises ``ValueError``
    where this torch has no such function, or not exactly one such place in it.
    """
    function = _function(module, name)
    source = inspect.getsource(function)
    if source.count(old) != 1:
        raise ValueError(f"{module}.{name} has {source.count(old)} places {old!r}, want 1")
    code = function.__code__
    function.__code__ = _compiled(source.replace(old, new), function)
    try:
        yield
    finally:
        function.__code__ = code


def _function(module: str, name: str) -> FunctionType:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None) if inspect.isclass(found) else getattr(found, part, None)
    found = inspect.unwrap(getattr(found, "__func__", found))
    if not isinstance(found, FunctionType):
        raise ValueError(f"no function {module}.{name}")
    return found


def _compiled(source: str, function: FunctionType) -> CodeType:
    """The function's code from its text, without decorators; closures must stay as they are."""
    text = textwrap.dedent(source)
    body = text[text.index("def ") :]
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    outer = compile(_closed(body, function), function.__code__.co_filename, "exec", flags, dont_inherit=True)
    code = _inside(outer, function.__name__)
    assert code is not None and code.co_freevars == function.__code__.co_freevars
    return code


def _closed(body: str, function: FunctionType) -> str:
    """The definition inside one that has the names of its closure."""
    names = function.__code__.co_freevars
    if not names:
        return body
    given = "".join(f"    {n} = None\n" for n in names)
    return f"def outer():\n{given}{textwrap.indent(body, '    ')}"


def _inside(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = constant if constant.co_name == name else _inside(constant, name)
            if found is not None:
                return found
    return None
