"""A campaign as one process per shard, each ``fxmorph run`` in an environment of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fxmorph.core.exits import Exit
from fxmorph.core.shard import Shard
from fxmorph.core.torch_environment import TorchEnvironment

#: Codes of runs that came to their end.
_ENDED = frozenset({Exit.OK, Exit.FINDINGS, Exit.UNSOUND, Exit.NOTHING_RAN})


@dataclass(frozen=True)
class ShardEnded:
    """How the process of a shard ended; ``code`` is below zero where a signal killed it."""

    shard: Shard
    code: int

    @property
    def exit(self) -> Exit:
        """What it counts as."""
        return Exit(self.code) if self.code in _ENDED | {Exit.INTERRUPTED} else Exit.INTERNAL

    @property
    def trouble(self) -> str:
        """What is to be said of it, "" where it came to its end."""
        if self.code in _ENDED:
            return ""
        if self.code == Exit.INTERRUPTED:
            return f"shard {self.shard} was interrupted; what it judged is kept"
        if self.code < 0:
            return f"shard {self.shard} was killed by {signal.Signals(-self.code).name}; what it stored is kept"
        return f"shard {self.shard} ended with exit code {self.code}; what it stored is kept"


def run_shards(environment: TorchEnvironment, arguments: Sequence[str], count: int) -> Iterator[ShardEnded]:
    """Run the shards one after another; ``arguments`` are those of ``fxmorph run``.

    Ctrl-C reaches the one that runs once, which then ends as a run does, and is raised when it has; a second one kills
    it.
    """
    for number in range(1, count + 1):
        shard = Shard(number, count)
        process = None
        try:
            with _interrupts_held():
                process = environment.start(["run", *arguments, "--shard", str(shard)])
            code = process.wait()
        except KeyboardInterrupt:
            if process is None:
                raise
            process.send_signal(signal.SIGINT)
            yield ShardEnded(shard, _wait_or_kill(process))
            raise
        yield ShardEnded(shard, code)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """A Ctrl-C that comes inside is raised at the end: a process that was started meanwhile is known by then."""
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _wait_or_kill(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
