"""``--engine ray``: workers are Ray actors.  The only importer of ray.

An actor takes one CPU of its node, or a part of a GPU, and holds a process of its own for the cases
(:mod:`fxmorph.campaign.node_worker`).  What all jobs need is the working folder of the job's runtime environment.
"""

from __future__ import annotations

import math
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from fxmorph.campaign.cluster_pool import Answered, ClusterPool, News, Order, Started, WorkerLost
from fxmorph.campaign.engine import Crew
from fxmorph.campaign.node_worker import PACKAGES, NodeWorker
from fxmorph.campaign.shipment import stage, with_relative_paths
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.pool import Workers
from fxmorph.core.versions import version_of
from fxmorph.model import Seed

#: Where the cluster is; without it the one that runs on this machine.
ADDRESS = "RAY_ADDRESS"
#: Wall seconds in which an address can be reached.
REACHED_SECONDS = 10.0
#: Wall seconds that workers have to leave.
LEAVE_SECONDS = 10.0


class RayEngine:
    """The nodes of a Ray cluster."""

    def own(self, settings: Settings) -> Settings:
        return with_relative_paths(settings)

    def missing(self, device: str) -> str:
        return ""

    def connect(self, settings: Settings, seeds: Iterable[Seed], packs: Iterable[Path]) -> int:
        if not ray.is_initialized():
            _connect(settings, seeds, packs)
        cpus, gpus = _resources()
        what, most = ("CPU", cpus) if settings.device == "cpu" else ("GPU", gpus)
        if not most:
            raise ConfigError(f"--engine ray: no node of the cluster has a {what}")
        return min(settings.jobs or most, cpus)

    def forks_scripts(self, devices: Sequence[str]) -> bool:
        return False  # the server's address is a socket of this machine

    @contextmanager
    def workers(self, crew: Crew, tell: Callable[[str], None]) -> Iterator[Workers]:
        cluster = RayCluster(crew)
        try:
            yield ClusterPool(cluster, crew.size, crew.arguments, crew.state, tell)
        finally:
            cluster.close()


@contextmanager
def ray_engine() -> Iterator[RayEngine]:
    """The engine, which is disconnected from the cluster in the end."""
    # Ray prints what nodes report on standard output, which may hold JSON lines; who writes those has it already.
    with redirect_stdout(sys.stderr):
        try:
            yield RayEngine()
        finally:
            ray.shutdown()


def _connect(settings: Settings, seeds: Iterable[Seed], packs: Iterable[Path]) -> None:
    """Raises :class:`ConfigError` where there is no cluster, and where what it needs is too much or not there."""
    with TemporaryDirectory(prefix="fxmorph-ray-") as place:
        stage(Path(place), settings, seeds, packs)
        address = os.environ.get(ADDRESS) or "auto"
        try:
            _require_reachable(address)
            ray.init(
                address,
                runtime_env={"working_dir": place},
                log_to_driver=False,
                logging_level="ERROR",
            )
        except (OSError, RuntimeError, ValueError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise ConfigError(
                f"--engine ray: {why} (`ray start --head` starts a cluster, {ADDRESS} names one)"
            ) from None


def _require_reachable(address: str) -> None:
    """Raise ``OSError`` where nothing listens at HOST:PORT, which Ray itself tries for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), REACHED_SECONDS).close()


def _resources() -> tuple[int, int]:
    """CPUs and GPUs of all nodes."""
    found = ray.cluster_resources()
    return int(found.get("CPU", 0)), int(found.get("GPU", 0))


class RayCluster:
    """The workers of a run as Ray actors."""

    def __init__(self, crew: Crew) -> None:
        resources: dict[str, Any] = {"num_cpus": 1}
        if crew.device != "cpu":
            resources["num_gpus"] = 1 / math.ceil(crew.size / _resources()[1])
        # Three calls at a time: a worker stays, and leaves while it has a job.
        kept = {"scheduling_strategy": "SPREAD", "max_restarts": 0, "max_concurrency": 3}
        self._actor = ray.remote(NodeWorker).options(**resources, **kept)
        self._arguments = os.getcwd(), str(crew.state), crew.device
        self._actors: dict[int, Any] = {}
        #: What is waited for, and of which worker.
        self._pending: dict[Any, int] = {}
        #: How many were begun, and which of them started.
        self._begun = 0
        self._ready: set[int] = set()

    def start(self) -> int:
        self._begun += 1
        actor = self._actors[self._begun] = self._actor.remote(*self._arguments)
        self._pending[actor.start.remote()] = self._begun
        return self._begun

    def give(self, worker: int, order: Order) -> None:
        self._pending[self._actors[worker].run.remote(order)] = worker

    def news(self, timeout: float) -> Iterator[News]:
        waiting = list(self._pending)
        ready, _ = ray.wait(waiting, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for reference in ready:
            worker = self._pending.pop(reference)
            if worker not in self._actors:  # one of its calls has said so
                continue
            try:
                answer = ray.get(reference)
            except RayError as error:
                # One that cannot be reached may be alive: it is given up all the same, and never heard again.
                ray.kill(self._actors.pop(worker))
                yield WorkerLost(worker, _in_words(error))
                continue
            if isinstance(answer, dict):
                _require_versions(answer)
                self._ready.add(worker)
                self._pending[self._actors[worker].stay.remote()] = worker
                yield Started(worker)
            else:
                yield Answered(worker, answer)

    def close(self) -> None:
        """Have all workers that started leave, and kill them."""
        leaving = [self._actors[worker].leave.remote() for worker in self._ready if worker in self._actors]
        if leaving:
            ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_SECONDS)
        for actor in self._actors.values():
            ray.kill(actor)


def _in_words(error: RayError) -> str:
    """One line: what Ray says of an actor's end without its ids, or what was raised in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RayActorError):
        return lines[0] if lines else "its process ended"
    return lines[-1] if lines else type(error).__name__


def _require_versions(versions: dict[str, str]) -> None:
    for package in PACKAGES:
        if versions[package] != version_of(package):
            raise ConfigError(
                f"--engine ray: a node has {package} {versions[package]} and this machine {version_of(package)}:"
                " install the same on all"
            )
