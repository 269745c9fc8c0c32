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
#: What it is filled with in the blocks that are open.
_open: list[int] = []


def garbage_in_new_memory() -> contextlib.AbstractContextManager[None]:
    """What this process allocates on the CPU is filled with garbage; with another C library nothing changes."""
    return _filled_with(_BYTE)


def other_garbage() -> contextlib.AbstractContextManager[None]:
    """What is allocated holds other garbage than before: results that hang on it are not the same."""
    return _filled_with(_OTHER_BYTE)


@contextlib.contextmanager
def _filled_with(byte: int) -> Iterator[None]:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        yield
        return
    _open.append(byte)
    mallopt(_PERTURB, byte)
    try:
        yield
    finally:
        _open.pop()
        mallopt(_PERTURB, _open[-1] if _open else 0)
