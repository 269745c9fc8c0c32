"""Modules loaded without a search for garbage among them.

torch and its compiler are 400,000 objects that stay: Python's collector goes through all of them again and again while
they are made, a fifth of the time that loading them takes, and once more in each process that is forked from there.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """What exists at the end is never searched for garbage, in this process or in forks of it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()
