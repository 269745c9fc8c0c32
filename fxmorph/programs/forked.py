"""Work on items one after another in a forked process, which is replaced when it crashes or hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, TypeVar

T = TypeVar("T")


class Ending(StrEnum):
    """How the work on an item came to no end of its own."""

    RAISED = "raised"  #: an exception
    TIMED_OUT = "timed-out"  #: it took longer than it may
    CRASHED = "crashed"  #: a signal ended the process
    EXITED = "exited"  #: the process ended itself


@dataclass(frozen=True)
class Said:
    """The last line that the work on an item gave."""

    line: str


@dataclass(frozen=True)
class Crashed:
    """The work on an item raised, or ended the process; ``line`` is the last one before, or empty."""

    line: str
    reason: str
    ending: Ending


def forked(
    items: Sequence[T], work: Callable[[T], Iterator[str]], seconds: float
) -> Iterator[tuple[T, Said | Crashed]]:
    """Each item with what came of it, in order.

    ``work`` yields lines of text without line breaks, at least one; it runs in a child.  An item takes
    at most ``seconds``.
    """
    done = 0
    while done < len(items):
        pid, lines = _child(items[done:], work, seconds)
        last, ended = "", False
        try:
            for line in lines:
                mark, _, text = line.rstrip("\n").partition(" ")
                if mark == "line":
                    last = text
                    continue
                yield items[done], Said(last) if mark == "done" else Crashed(last, text, Ending.RAISED)
                done, last = done + 1, ""
            ended = True
        finally:
            lines.close()
            if not ended:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        if done < len(items):
            yield items[done], Crashed(last, *_ended(status, seconds))
            done += 1


def _child(items: Sequence[T], work: Callable[[T], Iterator[str]], seconds: float) -> tuple[int, IO[str]]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, os.fdopen(reading, "r")
    os.close(reading)
    code = 1
    try:
        with os.fdopen(writing, "w", buffering=1) as out:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for item in items:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                try:
                    for line in work(item):
                        out.write(f"line {line}\n")
                    out.write("done\n")
                except Exception as error:
                    out.write(f"raised {type(error).__name__}: {' '.join(str(error).split())}\n")
        code = 0
    finally:
        os._exit(code)


def _ended(status: int, seconds: float) -> tuple[str, Ending]:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"more than {seconds:g} s", Ending.TIMED_OUT
        return f"crashed ({signal.Signals(number).name})", Ending.CRASHED
    return f"exited with {os.waitstatus_to_exitcode(status)}", Ending.EXITED
