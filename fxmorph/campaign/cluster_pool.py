"""Workers on the nodes of a cluster: who gets which job, and what becomes of the job of one that is lost."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fxmorph.campaign.shipment import Files, needed_by, read_files, write_files
from fxmorph.core.config import ConfigError
from fxmorph.core.pool import Ended, Trouble

#: Wall seconds after a loss in which no job of a lost worker is given out again: others of the same node may be lost,
#: too, and not be known to be.
CALM_SECONDS = 1.0
#: So many workers that are lost before they start, one after the other, and the cluster is given up.
FAILED_STARTS = 3


@dataclass(frozen=True)
class Order:
    """A job for a node: its limit in CPU seconds, the arguments of the process that does it, the files it needs."""

    job: Any
    limit: float
    arguments: tuple[Any, ...]
    files: Files


@dataclass(frozen=True)
class Answer:
    """How a job on a node ended, with the files that it made, and the CPU seconds that the fork server there used."""

    ended: Ended
    files: Files
    server_cpu: float


@dataclass(frozen=True)
class Started:
    """A worker can be given jobs."""

    worker: int


@dataclass(frozen=True)
class Answered:
    worker: int
    answer: Answer


@dataclass(frozen=True)
class WorkerLost:
    """A worker, or its node, is there no more."""

    worker: int
    why: str


News: TypeAlias = Started | Answered | WorkerLost


class Cluster(Protocol):
    """What starts workers on nodes, and carries orders and answers; workers have numbers."""

    def start(self) -> int:
        """A new worker, which waits for room on a node if there is none."""

    def give(self, worker: int, order: Order) -> None:
        """An order for a worker that started and has none."""

    def news(self, timeout: float) -> Iterator[News]:
        """What happens within ``timeout`` wall seconds (one round of waiting); raises :class:`ConfigError`."""


@dataclass(frozen=True)
class _Task:
    job: Any
    limit: float
    #: Whether a worker was lost that had it.
    again: bool = False


class ClusterPool:
    """``size`` workers of a cluster, each with one job at a time.

    The job of a worker that is lost is queued again, once; where the next one is lost too it ends as killed.  An
    answer counts once: that of a worker which was given up is never heard.  ``state`` is the run's state folder here,
    ``tell`` hears of workers that are lost.
    """

    def __init__(
        self, cluster: Cluster, size: int, arguments: tuple[Any, ...], state: Path, tell: Callable[[str], None]
    ) -> None:
        self._cluster, self._arguments, self._state, self._tell = cluster, arguments, state, tell
        self._free: list[int] = []
        self._tasks: dict[int, _Task] = {}
        self._again: deque[_Task] = deque()
        #: When the last worker was lost (monotonic seconds).
        self._lost_at = -math.inf
        self._server_cpu: dict[int, float] = {}
        #: Workers that did not start, one after the other.
        self._failed = 0
        #: Files of the state folder that renewed arguments name.
        self._more: Files = {}
        self._starting = {cluster.start() for _ in range(size)}

    @property
    def idle(self) -> int:
        return max(len(self._free) - len(self._again), 0)

    @property
    def busy(self) -> bool:
        return bool(self._tasks or self._again)

    def renew(self, arguments: tuple[Any, ...]) -> None:
        folders = [Path(p) for part in arguments if isinstance(part, list) for p in part]
        of_state = [folder for folder in folders if self._state.resolve() in folder.parents]
        self._arguments = arguments
        self._more = read_files(file for folder in of_state for file in folder.rglob("*") if file.is_file())

    def submit(self, job: Any, limit: float) -> None:
        self._give(_Task(job, limit))

    def ended(self, timeout: float) -> Iterator[Ended]:
        for news in self._cluster.news(timeout):
            match news:
                case Started(worker):
                    self._failed = 0
                    self._starting.discard(worker)
                    self._free.append(worker)
                case Answered(worker, answer):
                    self._free.append(worker)
                    self._server_cpu[worker] = answer.server_cpu
                    write_files(answer.files)
                    yield replace(answer.ended, job=self._tasks.pop(worker).job)
                case WorkerLost(worker, why):
                    yield from self._lost(worker, why)
        while self._again and self._free and time.monotonic() > self._lost_at + CALM_SECONDS:
            self._give(self._again.popleft())

    def server_cpu(self) -> float:
        return sum(self._server_cpu.values())

    def _give(self, task: _Task) -> None:
        worker = self._free.pop(0)
        self._tasks[worker] = task
        files = {**self._more, **needed_by(task.job, self._state)}
        self._cluster.give(worker, Order(task.job, task.limit, self._arguments, files))

    def _lost(self, worker: int, why: str) -> Iterator[Ended]:
        if worker in self._starting:
            self._starting.remove(worker)
            self._failed += 1
            if self._failed == FAILED_STARTS:
                raise ConfigError(f"no worker of the cluster starts: {why}")
        if worker in self._free:
            self._free.remove(worker)
        task = self._tasks.pop(worker, None)
        self._lost_at = time.monotonic()
        self._starting.add(self._cluster.start())
        if task is None:
            self._tell(f"a worker of the cluster was lost: {why}")
        elif task.again:
            self._tell(f"a worker of the cluster was lost, the second one with the same job: {why}")
            yield Ended(task.job, None, Trouble.KILLED, "start", f"two workers of the cluster were lost with it: {why}")
        else:
            self._tell(f"a worker of the cluster was lost, its job is queued again: {why}")
            self._again.append(replace(task, again=True))
