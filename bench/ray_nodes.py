"""Campaigns on a Ray cluster of two nodes of this machine: their verdicts, what kills cost them, and how fast they are.

    python bench/ray_nodes.py PATH... [--cases 12] [--seed N] [--kills 1] [--timed 0] [OPTIONS OF RUN]

The campaign runs in one process, as two shards and on two nodes; then on two nodes of which a Ray worker, a node (its
raylet and workers) and the driver are killed (`kill -9`) at random moments, ``--kills`` times each; a killed driver
goes on with ``--resume``.  With ``--timed N``, N seeds as they are are judged on one node and on two, each pinned to a
half of the cores; what is judged before each worker has done two cases (imports, a first compile) does not count.
Exit code 1 where verdicts differ.  Linux only; needs `pip install 'fxmorph[ray]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from killed_runs import stored
from ray.cluster_utils import Cluster

#: Bytes of a node's object store: what goes through it are texts.
OBJECT_STORE = 200 * 2**20
REQUEUED = "its job is queued again"


class Nodes:
    """A cluster whose first process has no CPU, and nodes each pinned to so many of the cores."""

    def __init__(self, count: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._each = max(len(cores) // 2, 1)
        self._halves = [cores[: self._each], cores[-self._each :]]
        head = {"num_cpus": 0, "object_store_memory": OBJECT_STORE, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self._nodes = [self._begun(half) for half in self._halves[:count]]

    @property
    def workers(self) -> int:
        """How many CPUs all nodes have."""
        return self._each * len(self._nodes)

    def _begun(self, cores: Sequence[int]) -> Any:
        """A node; what it starts inherits where it may run."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)
        try:
            return self._cluster.add_node(num_cpus=self._each, object_store_memory=OBJECT_STORE)
        finally:
            os.sched_setaffinity(0, before)

    def kill_worker(self, rng: random.Random) -> bool:
        """Kill a Ray worker that has a job; whether there was one."""
        found = [pid for node in self._nodes for pid in _workers_of(_raylet(node))]
        if found:
            os.kill(rng.choice(found), signal.SIGKILL)
        return bool(found)

    def kill_node(self, rng: random.Random) -> bool:
        """Kill a node on which a worker has a job, whether there was one; another one takes its place."""
        for place in rng.sample(range(len(self._nodes)), len(self._nodes)):
            raylet = _raylet(self._nodes[place])
            if workers := _workers_of(raylet):
                # As where a machine is gone: workers that outlive their raylet for a second would still answer.
                for process in (raylet, *workers):
                    os.kill(process, signal.SIGKILL)
                self._nodes[place] = self._begun(self._halves[place])
                return True
        return False

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def _workers_of(raylet: int) -> list[int]:
    """Processes of Ray on that node in which a job of fxmorph runs."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == raylet and (place / "cmdline").read_bytes().startswith(b"ray::NodeWorker.run"):
                found.append(int(place.name))
        except OSError:  # it has ended
            continue
    return found


def command(options: argparse.Namespace, state: Path, *more: str) -> list[str]:
    told = ["--state", str(state), "--json", "--max-time", options.max_time]
    return [sys.executable, "-m", "fxmorph", "run", *more, *told]


def campaign(options: argparse.Namespace) -> list[str]:
    cases = [*options.paths, "--only", "seeds", "--seed", str(options.seed), "--max-cases", str(options.cases)]
    return [*cases, *options.run]


def whole(options: argparse.Namespace) -> list[str]:
    """The campaign as its shards see it, in one part."""
    return [*campaign(options), "--shard", "1/1"]


def lines(of: Sequence[str], address: str = "") -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Each event of a command as it comes, with its process, which may be killed meanwhile."""
    environment = {**os.environ, **({"RAY_ADDRESS": address} if address else {})}
    with subprocess.Popen(of, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield process, json.loads(line)


def run(of: Sequence[str], address: str = "") -> None:
    for _ in lines(of, address):
        pass


def disturbed(of: Sequence[str], address: str, at: set[int], kill: Callable[[], bool]) -> tuple[int, int]:
    """(How often ``kill`` killed, how many jobs were queued again): it is asked once ``at`` cases are judged."""
    judged = kills = queued = due = 0
    for _, event in lines(of, address):
        queued += event["event"] == "warning" and REQUEUED in event["message"]
        judged += event["event"] == "case"
        due += event["event"] == "case" and judged in at
        if due and kill():
            kills, due = kills + 1, due - 1
    return kills, queued


def resumed(options: argparse.Namespace, state: Path, address: str, at: set[int]) -> int:
    """How often the driver was killed, each time once ``at`` cases are judged; the last part is left to end."""
    kills, arguments = 0, whole(options)
    for most in (*sorted(at), options.cases + 1):
        judged = 0
        for process, event in lines(command(options, state, *arguments, "--engine", "ray"), address):
            judged += event["event"] == "case"
            if judged == most:
                process.kill()
                kills += 1
                break
        arguments = ["--resume"]
    return kills


def rate(options: argparse.Namespace, nodes: int, folder: str) -> float:
    """Cases a minute on so many nodes, once each worker has judged two."""
    told = [*options.paths, "--only", "seeds", "--no-rewrites", "--max-cases", str(options.timed), *options.run]
    with Nodes(nodes) as cluster:
        moments = [
            time.monotonic()
            for _, event in lines(command(options, Path(folder), *told, "--engine", "ray"), cluster.address)
            if event["event"] == "case"
        ]
        moments = moments[2 * cluster.workers - 1 :]
    return 60 * (len(moments) - 1) / (moments[-1] - moments[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="seeds")
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=1, help="of each sort")
    parser.add_argument("--timed", type=int, default=0, help="how many seeds are timed [none]")
    parser.add_argument("--max-time", default="15m", help="of each run")
    options, options.run = parser.parse_known_args()  # the rest is for `fxmorph run`
    rng = random.Random(options.seed)
    differing = 0
    with TemporaryDirectory(prefix="fxmorph-ray-nodes-") as folder:
        states = iter(Path(folder, str(n)) for n in range(100))

        def compared(what: str, expected: dict[str, str], *of: Path) -> None:
            nonlocal differing
            got = {id: verdict for state in of for id, verdict in stored(state)[0].items()}
            lost, other = expected.keys() - got.keys(), [id for id in expected if got.get(id, "") != expected[id]]
            differing += got != expected
            print(
                f"{what}: {len(got)} cases, {len(lost)} lost, {len(other) - len(lost)} with another verdict", flush=True
            )

        one, ray = next(states), ("--engine", "ray")
        run(command(options, one, *whole(options), "-j", "1"))
        expected = stored(one)[0]
        print(f"one process: {len(expected)} cases", flush=True)
        shards = [next(states), next(states)]
        for number, state in enumerate(shards, 1):
            run(command(options, state, *campaign(options), "--shard", f"{number}/2", "-j", "1"))
        compared("two shards", expected, *shards)
        with Nodes(2) as nodes:
            state = next(states)
            run(command(options, state, *whole(options), *ray), nodes.address)
            compared("two nodes", expected, state)
            for what, kill in (("Ray workers", nodes.kill_worker), ("nodes", nodes.kill_node)):
                state, at = next(states), set(rng.sample(range(1, len(expected) - 2), options.kills))
                kills, queued = disturbed(
                    command(options, state, *whole(options), *ray), nodes.address, at, lambda kill=kill: kill(rng)
                )
                compared(f"{kills} {what} killed, {queued} jobs queued again", expected, state)
            state, at = next(states), set(rng.sample(range(1, len(expected) - 2), options.kills))
            kills = resumed(options, state, nodes.address, at)
            compared(f"driver killed {kills} times and resumed", expected, state)
        if options.timed:
            slow, fast = (rate(options, count, str(next(states))) for count in (1, 2))
            print(f"one node {slow:.1f} cases a minute, two nodes {fast:.1f}: {fast / slow:.2f} times as many")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
