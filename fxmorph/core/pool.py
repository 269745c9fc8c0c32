"""Persistent worker processes: a crash or a hang costs only its own job and is its result.

What a worker does is a function ``serve(connection, ...)`` that prepares the process and ends in
:func:`answer_jobs`, the one loop over jobs; :meth:`Pool.run` is the one loop that hands them out.

Workers are forked from a server that has torch imported; each leads a session of its own, so
that a worker that is killed takes its C++ compilers with it; workers die with the parent.
Limits are CPU seconds of the whole session, with a wall-clock guard for jobs that sleep.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from fxmorph.core.gpu_forks import ASK_NVML

#: A job may take this many times its CPU limit in wall-clock seconds.
WALL_FACTOR = 3.0
#: A worker is replaced when its memory passes this many MiB between jobs.
MEMORY_MIB = 4096
#: Wall seconds after which limits are looked at again, where no job ends before.
ROUND_SECONDS = 0.5


class Trouble(StrEnum):
    """What ended a job that has no value."""

    NONE = ""
    CRASH = "crash"  #: its worker died, or can run nothing any more
    KILLED = "killed"  #: something else killed its worker: the system, where memory is short, or a person
    TIMEOUT = "timeout"  #: its worker was killed at the limit
    ERROR = "error"  #: it raised


@dataclass(frozen=True)
class Ended:
    """How a job ended: ``value`` where it returned, else ``trouble``, the last phase told, and ``detail``.

    ``detail`` is one line: the signal or exit code of a crash, the seconds of a time-out, what was raised.
    ``cpu`` is CPU seconds that the dead worker had used for the job; ``unequipped``: see :class:`Unequipped`.
    ``so_far`` is the last that a job which did not return had told of its answer, ``phases`` are all that it told.
    ``alone``: so it ends without what is under test, too.
    """

    job: Any
    value: Any = None
    trouble: Trouble = Trouble.NONE
    phase: str = ""
    detail: str = ""
    cpu: float = 0.0
    unequipped: bool = False
    so_far: Any = None
    phases: frozenset[str] = frozenset()
    alone: bool = False


@dataclass(frozen=True)
class Doubt:
    """A job that says what the end of another means: that is what ``settled`` makes of how it ends."""

    job: Any
    settled: Callable[[Ended], Ended]


class Unequipped(Exception):
    """Raised by what answers a job: the machine lacks what every job needs.  An error, with these words."""


class Lost(Exception):
    """Raised by what answers a job: this process can run nothing any more.  That is a crash, with these words."""


def phases(connection: Connection) -> Callable[[str], None]:
    """A function that tells the parent which phase the job is in."""
    return lambda phase: connection.send(("phase", phase))


def answers_so_far(connection: Connection) -> Callable[[Any], None]:
    """A function that tells the parent what the answer is so far."""
    return lambda value: connection.send(("so far", value))


def first_line(error: Exception) -> str:
    """An exception as its type and the first line of its text; where it was raised is printed, to the log."""
    traceback.print_exc()
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def answer_jobs(
    connection: Connection, answer: Callable[[Any], Any], in_words: Callable[[Exception], str] = first_line
) -> None:
    """In a worker: answer each job with what ``answer`` returns, until the connection closes.

    What it raises is the job's error, ``in_words``; :class:`Lost` is a crash.  Both end the worker.
    Raises ``EOFError`` once the parent has closed its end.
    """
    while True:
        job = connection.recv()
        try:
            connection.send(("done", answer(job)))
        except Lost as error:
            connection.send(("lost", str(error)))
            return
        except Unequipped as error:
            connection.send(("unequipped", str(error)))
        except Exception as error:
            connection.send(("error", in_words(error)))
            return


class Workers(Protocol):
    """What a run hands its jobs to: the processes of a :class:`Pool`, or such processes on other machines."""

    @property
    def idle(self) -> int:
        """How many jobs may be submitted now."""

    @property
    def busy(self) -> bool:
        """Whether a job was submitted whose end was not told yet."""

    def renew(self, arguments: tuple[Any, ...]) -> None:
        """Have jobs run with these arguments from now on."""

    def submit(self, job: Any, limit: float) -> None:
        """Give ``job`` (picklable) to an idle worker, with a limit in CPU seconds."""

    def ended(self, timeout: float) -> Iterator[Ended]:
        """Jobs that end within ``timeout`` wall seconds (one round of waiting)."""

    def server_cpu(self) -> float:
        """CPU seconds that workers' fork servers used themselves."""


class _Worker:
    def __init__(self, context: Any, serve: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_main, args=(theirs, os.getpid(), serve, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.limit = 0.0
        self.started = 0.0
        self.cpu_before = 0.0
        self.phases: list[str] = []
        self.so_far: Any = None
        #: Whether it has answered a job before.
        self.used = False

    @property
    def busy(self) -> bool:
        return self.job is not None

    def kill(self) -> None:
        pid = self.process.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            self.process.kill()
        self.process.join(5)
        self.connection.close()


def _main(connection: Connection, parent: int, serve: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Body of a worker process."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        serve(connection, *arguments)


def _die_with(parent: int) -> None:
    """End this session once the parent is gone, whatever the worker is doing."""
    while True:
        time.sleep(1.0)
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os.killpg(0, signal.SIGKILL)


def start_server(preload: list[str], gpu: bool = False) -> None:
    """Start the server that this process forks workers from, if it does not run yet; it imports ``preload`` meanwhile.

    Workers of a server that has modules to share see no GPU, but where they are to use it and can (``gpu_forks``).
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    # While it imports, Ctrl-C is the parent's business.
    with _interrupts_ignored(), _gpus_hidden() if preload and not gpu else contextlib.nullcontext():
        _start_quiet_tracker()
        multiprocessing.forkserver.ensure_running()


def _start_quiet_tracker() -> None:
    """Start the process that removes what workers leave in the system, if it does not run yet.

    Of the semaphores of workers that were killed it would say so on the terminal, as if something were wrong.
    """
    options = list(sys.warnoptions)  # its interpreter is started with those of this one
    sys.warnoptions.append("ignore:resource_tracker")
    try:
        multiprocessing.resource_tracker.ensure_running()
    finally:
        sys.warnoptions[:] = options


class Pool:
    """``size`` workers that run ``serve(connection, *arguments)``, which ends in :func:`answer_jobs`.

    ``preload`` names modules that the workers share, imported once before they are forked; such workers see no GPU,
    unless the server was started before for those that do.
    A job that raised in a worker which had answered others is done once more in a fresh one: what they left behind may
    be why.  ``doubt`` may ask another job what an end means before it is told.
    """

    def __init__(
        self, size: int, serve: Callable[..., None], arguments: tuple[Any, ...], preload: list[str],
        doubt: Callable[[Ended], Doubt | None] = lambda ended: None,
    ) -> None:  # fmt: skip
        start_server(preload)
        self._doubt = doubt
        #: The jobs that were asked and have not answered, each with what it is to settle.
        self._asked: dict[int, Doubt] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._serve, self._arguments, self._size = serve, arguments, size
        self._workers: list[_Worker] = []

    @property
    def idle(self) -> int:
        """How many jobs may be submitted now."""
        return self._size - sum(w.busy for w in self._workers)

    @property
    def busy(self) -> bool:
        return any(w.busy for w in self._workers)

    def renew(self, arguments: tuple[Any, ...]) -> None:
        """Have jobs run with these arguments from now on: workers that are idle are replaced, busy ones once they are.

        A busy worker keeps the old arguments for the job that it has.
        """
        self._arguments = arguments

    def run(self, jobs: Iterable[Any], limit: float, ordered: bool = False) -> Iterator[Ended]:
        """How each of ``jobs`` ends, as they end, or if ``ordered`` in their order; ``limit`` is CPU seconds of each.

        A job is taken from ``jobs`` when a worker is idle, so that what it depends on may come of those before; an
        :class:`Ended` among them is the end of a job that needs no work.  Jobs are told apart as objects.
        """
        if not ordered:
            yield from self._as_they_end(jobs, limit)
            return
        begun: deque[Any] = deque()
        ready: dict[int, Ended] = {}
        for ended in self._as_they_end(_noted(jobs, begun), limit):
            ready[id(ended.job)] = ended
            while begun and id(begun[0]) in ready:
                yield ready.pop(id(begun.popleft()))

    def _as_they_end(self, jobs: Iterable[Any], limit: float) -> Iterator[Ended]:
        waiting = iter(jobs)
        while True:
            while self.idle:
                try:
                    job = next(waiting)
                except StopIteration:
                    break
                if isinstance(job, Ended):
                    yield job
                else:
                    self.submit(job, limit)
            if not self.busy:
                return
            yield from self.ended(ROUND_SECONDS)

    def submit(self, job: Any, limit: float) -> None:
        """Give ``job`` (picklable) to an idle worker, with a limit in CPU seconds."""
        worker = next((w for w in self._workers if not w.busy), None)
        if worker is not None and (
            worker.arguments is not self._arguments or _memory_mib(worker.process.pid) > MEMORY_MIB
        ):
            self._drop(worker)
            worker = None
        if worker is None:
            worker = _Worker(self._context, self._serve, self._arguments)
            self._workers.append(worker)
        worker.job, worker.limit, worker.started = job, limit, time.monotonic()
        worker.phases, worker.so_far = ["start"], None
        worker.cpu_before = _session_cpu(worker.process.pid)
        with contextlib.suppress(OSError):  # a dead worker is noticed by the next `ended`
            worker.connection.send(job)

    def ended(self, timeout: float) -> Iterator[Ended]:
        """Jobs that end within ``timeout`` wall seconds (one round of waiting)."""
        busy = [w for w in self._workers if w.busy]
        waiting: dict[Any, _Worker] = {}
        for w in busy:
            waiting[w.connection] = w
        for ready in wait(list(waiting), timeout):
            worker = waiting[ready]
            ended = self._receive(worker)
            if ended is not None:
                yield from self._told(ended, worker.limit)
        now = time.monotonic()
        for worker in [w for w in self._workers if w.busy]:
            wall = now - worker.started
            if wall > worker.limit / 2:
                used = _session_cpu(worker.process.pid) - worker.cpu_before
                if used > worker.limit or wall > worker.limit * WALL_FACTOR:
                    words = f"{used:.0f} CPU seconds, {wall:.0f} s of wall time"
                    yield from self._told(self._end(worker, Trouble.TIMEOUT, words, used), worker.limit)

    def _told(self, ended: Ended, limit: float) -> Iterator[Ended]:
        """The end, where no other job is to be asked what it means."""
        asked = self._asked.pop(id(ended.job), None)
        if asked is not None:
            yield asked.settled(ended)
            return
        doubt = self._doubt(ended)
        if doubt is None:
            yield ended
            return
        self._asked[id(doubt.job)] = doubt
        self.submit(doubt.job, limit)

    def _receive(self, worker: _Worker) -> Ended | None:
        try:
            word, value = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(5)
            code = worker.process.exitcode
            name = f"signal {-code} ({signal.Signals(-code).name})" if code is not None and code < 0 else f"exit {code}"
            # No program sends itself that signal.
            killed = code == -signal.SIGKILL
            return self._end(worker, Trouble.KILLED if killed else Trouble.CRASH, name, 0.0)
        if word == "phase":
            worker.phases.append(value)
            return None
        if word == "so far":
            worker.so_far = value
            return None
        if word == "error" and worker.used:
            self._drop(worker)
            self.submit(worker.job, worker.limit)
            return None
        if word in ("lost", "error"):
            return self._end(worker, Trouble.CRASH if word == "lost" else Trouble.ERROR, value, 0.0)
        job, worker.job, worker.used = worker.job, None, True
        if word == "done":
            return Ended(job, value)
        return Ended(job, trouble=Trouble.ERROR, phase=worker.phases[-1], detail=value, unequipped=True)

    def _end(self, worker: _Worker, trouble: Trouble, detail: str, cpu: float) -> Ended:
        told = worker.phases
        ended = Ended(
            worker.job, None, trouble, told[-1], detail, cpu, so_far=worker.so_far, phases=frozenset(told)
        )  # fmt: skip
        self._drop(worker)
        return ended

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        self._workers.remove(worker)

    def server_cpu(self) -> float:
        """CPU seconds that the fork server itself used, importing what workers share (Linux; else 0)."""
        pid = getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None)
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End idle workers, kill the others."""
        for worker in self._workers:
            if not worker.busy:
                worker.connection.close()
        for worker in list(self._workers):
            if not worker.busy:
                worker.process.join(3)
            self._drop(worker)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _noted(jobs: Iterable[Any], begun: deque[Any]) -> Iterator[Any]:
    """The jobs, each put at the end of ``begun`` when it is taken."""
    for job in jobs:
        begun.append(job.job if isinstance(job, Ended) else job)
        yield job


@contextlib.contextmanager
def _gpus_hidden() -> Iterator[None]:
    """For what is started here: no GPU is visible, and who asks whether there is one does not touch the driver.

    Torch's compiler and its tests ask when they are imported, and the driver does not survive a fork: a worker that
    asks again gets an error or a segmentation fault.
    """
    hidden = {"CUDA_VISIBLE_DEVICES": "", **ASK_NVML}
    before = {name: os.environ.get(name) for name in hidden}
    os.environ.update(hidden)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """What is started meanwhile does not hear SIGINT; nothing changes outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def print_to(log: str) -> None:
    """Let what this process prints go to ``log``: standard output is the parent's, which may hold JSON lines."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def _session_cpu(session: int | None) -> float:
    """CPU seconds of all live processes of a session and of their waited-for children (Linux; else 0)."""
    if session is None or not os.path.isdir("/proc/self"):
        return 0.0
    tick = os.sysconf("SC_CLK_TCK")
    total = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(session):
            total += sum(map(int, fields[11:15]))
    return total / tick


def _memory_mib(pid: int | None) -> float:
    try:
        with open(f"/proc/{pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0
