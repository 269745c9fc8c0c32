"""What an interpreted kernel does that no kernel may do, whatever values it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from fxmorph.model import Kind


@dataclass(frozen=True)
class KernelFault:
    """``said`` is one line that names the kernel, the buffer and the nodes that the kernel comes from."""

    kind: Kind
    kernel: str
    buffer: str
    said: str


class Faults:
    """Faults of the kernels that run: the first of each kind, kernel and buffer."""

    def __init__(self) -> None:
        self._found: dict[tuple[Kind, str, str], KernelFault] = {}

    def add(self, fault: KernelFault) -> None:
        self._found.setdefault((fault.kind, fault.kernel, fault.buffer), fault)

    @property
    def found(self) -> tuple[KernelFault, ...]:
        return tuple(self._found.values())


#: Where faults are noted, if anywhere.
_noted: Faults | None = None


def current_faults() -> Faults | None:
    """Where kernels are to note what they do wrong; None: nobody looks."""
    return _noted


@contextlib.contextmanager
def faults_noted() -> Iterator[Faults]:
    """Faults of kernels that are interpreted inside."""
    global _noted
    before, _noted = _noted, Faults()
    try:
        yield _noted
    finally:
        _noted = before
