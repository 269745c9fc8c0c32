"""A night: one campaign under the torch of its day, and earlier findings run again under it.

Nights are kept with the runs and findings of their state folder; what they say of findings together is
``fxmorph/report/history.py``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Night:
    """``number`` counts from 1, ``started`` is in seconds since 1970; ``torch`` is as the environment names it.

    ``runs`` are the ids of its shards.  ``cases`` and ``seen`` are counts: cases that they judged, and differences that
    no fresh process has shown.  ``replayed`` are findings of earlier nights with what their repros show now: a word of
    ``fxmorph/core/lifetime.py``.  ``trouble`` says what ended a shard early, one line each.
    """

    number: int
    started: float
    torch: str
    runs: tuple[str, ...]
    cases: int = 0
    seen: int = 0
    replayed: tuple[tuple[str, str], ...] = ()
    trouble: tuple[str, ...] = ()
