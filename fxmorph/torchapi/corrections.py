"""What is wrong with one call of a function of the compiler, and how it is put right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Correction:
    """``wrong`` in words; ``mend`` puts it right and returns what the call is to return."""

    wrong: str
    mend: Callable[[], Any]


#: Given the result of a call: what is wrong with it, if anything.
After = Callable[[Any], Correction | None]
#: Given the arguments of a call, before it.
Check = Callable[..., After]
