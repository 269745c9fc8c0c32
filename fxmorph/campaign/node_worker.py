"""A worker on a node of a cluster: it holds a pool of one process, which does the jobs.

What a case does to that process, crash, hang or time-out, ends as it does on one machine, and the cluster never sees
it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fxmorph.campaign import worker_server
from fxmorph.campaign.cluster_pool import Answer, Order
from fxmorph.campaign.eager_alone import eager_alone
from fxmorph.campaign.shipment import RUN, copy_below, made_by, write_files, written_since
from fxmorph.core.pool import ROUND_SECONDS, Ended, Pool
from fxmorph.core.versions import version_of

#: What must be the same on a node as where the run was started.
PACKAGES = ("fxmorph", "torch")


class NodeWorker:
    """Works in the copy of ``folder``, that of the run, below a folder of the node.

    ``state`` is the state folder as seen from there; the workers of a node share one, and what they compiled.
    """

    def __init__(self, folder: str, state: str, device: str) -> None:
        self._folder, self._state, self._device = folder, Path(state), device
        self._root = Path()
        self._arguments: tuple[Any, ...] = ()
        self._pool: Pool | None = None

    def start(self) -> Mapping[str, str]:
        """Take what the run gave the node, in the folder that this process begins in, and begin the fork server.

        Returns the node's versions of :data:`PACKAGES`; raises ``OSError``.
        """
        self._root = own_copy(Path.cwd())
        place = copy_below(self._root, self._folder)
        place.mkdir(parents=True, exist_ok=True)  # it is not there where all seeds lie elsewhere
        os.chdir(place)
        # Children of a fork server import the main module of their parent: here the cluster's, which is of no use.
        vars(sys.modules["__main__"]).pop("__file__", None)
        worker_server.begin([self._device])
        return {package: version_of(package) for package in PACKAGES}

    def run(self, order: Order) -> Answer:
        """Do the job."""
        write_files(order.files)
        pool, begun = self._equipped(order.arguments), time.time()
        pool.submit(order.job, order.limit)
        ended = _end(pool)
        files = {**made_by(order.job, ended.value), **written_since(begun, self._state / "proofs")}
        return Answer(replace(ended, job=None), files, pool.server_cpu())

    def stay(self) -> None:
        """Return never: who waits for it hears when this worker is lost, with a job or without one."""
        threading.Event().wait()

    def leave(self) -> None:
        """End the process, whatever it does, and remove what the run has on this node."""
        if self._pool is not None:
            self._pool.close()
        shutil.rmtree(self._root, ignore_errors=True)

    def _equipped(self, arguments: tuple[Any, ...]) -> Pool:
        """The pool, whose process is started anew where the arguments are others."""
        if arguments != self._arguments or self._pool is None:
            self._arguments = arguments
            here = tuple(_below(self._root, part) for part in arguments)
            if self._pool is None:
                shared = worker_server.begin([self._device])
                self._pool = Pool(1, worker_server.serve, here, shared, eager_alone)
                self._state.mkdir(parents=True, exist_ok=True)
            self._pool.renew(here)
        return self._pool


def own_copy(given: Path) -> Path:
    """The run's own copy of a folder, beside it, which all workers of a node share.

    The folder is the cluster's: it is unpacked anew, below the feet of those who work in it, for each further node of
    the same machine.  Raises ``OSError``, as where that happens meanwhile.
    """
    place = given.parent / f"fxmorph-{(given / RUN).read_text()}"
    if not place.is_dir():
        made = tempfile.mkdtemp(dir=given.parent)
        shutil.copytree(given, made, dirs_exist_ok=True)
        try:
            os.rename(made, place)
        except OSError:  # another worker was first
            shutil.rmtree(made)
    return place


def _end(pool: Pool) -> Ended:
    while True:
        for ended in pool.ended(ROUND_SECONDS):
            return ended


def _below(root: Path, argument: Any) -> Any:
    """The argument of a worker with each path, which is absolute, below ``root``; "" is none."""
    if isinstance(argument, list):
        return [_below(root, part) for part in argument]
    return str(copy_below(root, argument)) if argument else ""
