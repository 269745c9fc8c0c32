"""New memory that holds garbage, so that a kernel that reads what nothing wrote shows it every time.

An allocator hands out what was freed last.  A kernel that reads a buffer too early then often finds the
value that the same kernel wrote there when it ran before, which is the right one.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

#: ``M_PERTURB`` of glibc's ``mallopt(3)``: new memory is filled with the complement of this byte.
_PERTURB = -6
#: Neither the complement's floats, about -3e-16, nor its integers are values that programs have.
_BYTE = 0x5A
#: The same in one line of a script.
IN_A_SCRIPT = f"import ctypes; ctypes.CDLL(None).mallopt({_PERTURB}, {_BYTE:#x})  # new memory holds garbage"
#: What else it may be filled with: what is computed of it then is not the same.
_OTHER_BYTE = 0x3C
#: How many blocks with garbage are open.
_inside = 0


@contextlib.contextmanager
def garbage_in_new_memory() -> Iterator[None]:
    """What this process allocates on the CPU is filled with garbage; with another C library nothing changes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        yield
        return
    global _inside
    _inside += 1
    mallopt(_PERTURB, _BYTE)
    try:
        yield
    finally:
        _inside -= 1
        if not _inside:
            mallopt(_PERTURB, 0)


@contextlib.contextmanager
def other_garbage() -> Iterator[None]:
    """What is allocated holds other garbage than before: results that hang on it are not the same."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        yield
        return
    mallopt(_PERTURB, _OTHER_BYTE)
    try:
        yield
    finally:
        mallopt(_PERTURB, _BYTE if _inside else 0)
