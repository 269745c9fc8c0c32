"""Campaigns on a real Ray cluster of two nodes: the verdicts of one process, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from preloaded import clean_environment
from test_run import FAST, GRADIENT, SEGFAULT, SOFTMAX, WRITES, cases, command, events, folder_of, outcomes

pytestmark = pytest.mark.slow
cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs pip install 'fxmorph[ray]'")

#: Of each node's object store, in bytes.
SMALL = 200 * 2**20
RUN = ("run", "seeds", *FAST, "--max-cases", "10", "--seed", "7")
LOST = "a worker of the cluster was lost, its job is queued again"


class Cluster:
    """Two nodes with a CPU each; the first process has none."""

    def __init__(self) -> None:
        head = {"num_cpus": 0, "object_store_memory": SMALL, "include_dashboard": False}
        self.all = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.all.add_node(num_cpus=1, object_store_memory=SMALL) for _ in range(2)]

    @property
    def raylets(self) -> list[int]:
        return [node.all_processes["raylet"][0].process.pid for node in self.nodes]

    def at_work(self) -> list[tuple[int, int]]:
        """(Ray worker, its node's raylet) of every job that is being done."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in self.raylets and (place / "cmdline").read_bytes().startswith(b"ray::NodeWorker.run"):
                    found.append((int(place.name), parent))
            except OSError:
                continue
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    started = Cluster()
    yield started
    started.all.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seeds, one of which takes its process with it, and what the first one imports."""
    made = folder_of(tmp_path, a="import _beside\n" + SOFTMAX, b=WRITES, c=SEGFAULT, d=GRADIENT)
    (made / "seeds" / "_beside.py").touch()
    return made


def run(cluster: Cluster, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**clean_environment(), "RAY_ADDRESS": cluster.all.address}
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
    )


def finished(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 3, err  # nothing is known of the seed that dies
    return events(subprocess.CompletedProcess([], 3, out, err))


def alone(folder: Path) -> list[Any]:
    """What one process says."""
    done = subprocess.run(
        command(*RUN, "--state", "one", "-j1"), capture_output=True, text=True, cwd=folder, env=clean_environment()
    )
    return outcomes(events(done))


def killed_on_the_way(process: subprocess.Popen[str], kill: Callable[[], bool]) -> list[dict[str, Any]]:
    """The run's events; from the second case on ``kill`` is asked at each, until it has killed."""
    assert process.stdout is not None
    text, done = "", False
    for line in process.stdout:
        text += line
        done = done or (text.count('"event": "case"') >= 2 and kill())
    assert done
    return events(subprocess.CompletedProcess([], process.wait(), text, ""))


def test_two_nodes_have_the_verdicts_of_one_process(cluster: Cluster, folder: Path) -> None:
    lines = finished(run(cluster, folder, *RUN, "--engine", "ray"))
    assert lines[0]["jobs"] == 2
    assert outcomes(lines) == alone(folder)
    (died,) = (case for case in cases(lines) if case["seed"] == "seeds/c.py")
    assert died["verdict"] == "error" and "SIGSEGV" in died["reason"]
    assert not any(LOST in line.get("message", "") for line in lines)  # no Ray worker went with it


def test_a_killed_worker_and_a_killed_node_lose_nothing(cluster: Cluster, folder: Path) -> None:
    def kill_worker() -> bool:
        for worker, _ in cluster.at_work()[:1]:
            os.kill(worker, signal.SIGKILL)
            return True
        return False

    def kill_node() -> bool:
        for worker, raylet in cluster.at_work()[:1]:
            gone = cluster.raylets.index(raylet)
            for process in (raylet, worker):  # as where a machine is gone: no answer comes any more
                os.kill(process, signal.SIGKILL)
            cluster.nodes[gone] = cluster.all.add_node(num_cpus=1, object_store_memory=SMALL)
            return True
        return False

    expected = alone(folder)
    for name, kill in (("worker", kill_worker), ("node", kill_node)):
        lines = killed_on_the_way(run(cluster, folder, *RUN, "--engine", "ray", "--state", name), kill)
        assert outcomes(lines) == expected, name
        assert sum(LOST in line.get("message", "") for line in lines) == 1, name


def test_a_killed_driver_goes_on(cluster: Cluster, folder: Path) -> None:
    first = run(cluster, folder, *RUN, "--engine", "ray", "--state", "cut")

    def kill_driver() -> bool:
        first.kill()
        return True

    killed_on_the_way(first, kill_driver)
    rest = finished(run(cluster, folder, "run", "--resume", "--engine", "ray", "--state", "cut", "--json"))
    assert outcomes(rest) == alone(folder)


def test_without_a_cluster_it_is_said_how_to_start_one(folder: Path) -> None:
    environment = {**clean_environment(), "RAY_ADDRESS": "127.0.0.1:1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "fxmorph", *RUN, "--engine", "ray"], capture_output=True, text=True, cwd=folder,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("fxmorph: --engine ray: ")
    assert "`ray start --head` starts a cluster" in done.stderr
