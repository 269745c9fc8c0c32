"""Where the CPU time of a process went, children included."""

from __future__ import annotations

import contextlib
import math
import resource
from collections.abc import Callable, Iterator
from typing import Any

#: The buckets; every CPU second of a process falls into exactly one.
ACTIVITIES = (
    "start", "capture", "rewrite", "prove", "compile", "c++", "eager", "judge", "reduce", "confirm", "store", "idle",
)  # fmt: skip


class Clock:
    """CPU seconds by activity.  Nested activities take their time from the outer one.

    Time of waited-for child processes during ``compile`` is the C++ compiler's (``c++``).
    ``on_change`` is told each activity that begins or goes on; ``so_far`` what is known at a moment, before more
    time is spent.  ``since_birth`` counts what the process used before its first activity as ``start``.
    """

    def __init__(
        self, on_change: Callable[[str], None] | None = None, since_birth: bool = False,
        so_far: Callable[[Any], None] | None = None,
    ) -> None:  # fmt: skip
        self.seconds: dict[str, float] = {}
        #: CPU seconds since the last :meth:`take` after which nothing long should be begun.
        self.enough = math.inf
        self._outside = "start" if since_birth else "idle"
        self._on_change = on_change
        self.so_far = so_far or (lambda known: None)
        self._stack: list[str] = []
        #: The innermost activity that an exception left, since the last :meth:`take`.
        self.failed_in = ""
        self._mark = (0.0, 0.0) if since_birth else self._read()

    @staticmethod
    def _read() -> tuple[float, float]:
        me = resource.getrusage(resource.RUSAGE_SELF)
        kids = resource.getrusage(resource.RUSAGE_CHILDREN)
        return me.ru_utime + me.ru_stime, kids.ru_utime + kids.ru_stime

    def _settle(self) -> None:
        now = self._read()
        here = self._stack[-1] if self._stack else self._outside
        self._add(here, now[0] - self._mark[0])
        self._add("c++" if here == "compile" else here, now[1] - self._mark[1])
        self._mark = now

    def _add(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds

    @contextlib.contextmanager
    def activity(self, name: str) -> Iterator[None]:
        """Everything inside counts for ``name``, but for nested activities."""
        self._settle()
        self._outside = "idle"
        self._stack.append(name)
        self._tell()
        try:
            yield
        except BaseException:
            self.failed_in = self.failed_in or name
            raise
        finally:
            self._settle()
            self._stack.pop()
            self._tell()

    def _tell(self) -> None:
        if self._on_change is not None:
            self._on_change(self._stack[-1] if self._stack else "idle")

    @property
    def is_enough(self) -> bool:
        """Whether more than ``enough`` was used."""
        self._settle()
        return sum(self.seconds.values()) > self.enough

    def take(self) -> tuple[tuple[str, float], ...]:
        """The seconds since the last call, by activity."""
        self._settle()
        out = tuple(sorted((k, round(v, 4)) for k, v in self.seconds.items() if v > 0))
        self.seconds = {}
        self.failed_in, self.enough = "", math.inf
        return out
