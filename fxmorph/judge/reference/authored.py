"""What custom operators mean, as their authors say it: functions that run in fp64 where the operators do not.

``fxmorph.testing.reference`` is the decorator of a seed or of a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

_AUTHORED: dict[str, Function] = {}


def reference(name: str) -> Callable[[Function], Function]:
    """Decorator: the function is the reference of the operator ``name``, as ``"mine::rms_norm"``.

    It takes the operator's arguments, with float64 tensors where the operator is called with floating-point
    ones (complex128 for complex ones), and returns what the operator returns, or writes what the operator writes.
    It must give the same for the same arguments and change nothing else.  A later one takes its place.

    Raises ``ValueError`` on a name without a namespace.
    """
    if not re.fullmatch(r"\w+::\w+", name):
        raise ValueError(f"reference of {name!r}: want the operator's name with its namespace, as 'mine::rms_norm'")

    def kept(function: Function) -> Function:
        _AUTHORED[name] = function
        return function

    return kept


def authored(name: str) -> Function | None:
    """The reference of an operator by its name with the namespace; None where its author gave none."""
    return _AUTHORED.get(name)
