"""Arithmetic as IEEE 754 has it: whatever code is loaded, results below the normal range are kept.

A library that was linked with ``-ffast-math`` sets the processor's flush-to-zero mode for the thread that loads it
(gcc before 13), and so does ``torch.set_flush_denormal``.  What eager computes there is not what a proof is about,
and what one program set must not decide about the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def flushed() -> bool:
    """Whether this thread replaces subnormal numbers by zero."""
    return not (torch.tensor([torch.finfo(torch.float32).tiny]) * 0.5).item()


@contextmanager
def subnormals_kept() -> Iterator[None]:
    """Subnormal numbers are kept inside, in this thread; its mode comes back afterwards, whatever was set inside."""
    before = flushed()
    torch.set_flush_denormal(False)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
