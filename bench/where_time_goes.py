"""Where the CPU of a run goes, children included, against the operating system's own count.

    python bench/where_time_goes.py [corpus/seeds] [--max-time 10m] [--seed N] [--jobs N]

Runs ``fxmorph run PATH --json`` into a state folder of its own and prints CPU seconds by
activity, the total of the operating system and what of it no activity accounts for.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

#: Bucket: activities of ``run-finished.seconds`` that fall into it.  Every activity is in one.
BUCKETS = (
    ("start", ("start",)),
    ("capture", ("capture",)),
    ("rewrite", ("rewrite",)),
    ("prove", ("prove",)),
    ("propose (asking, deciding)", ("propose",)),
    ("Dynamo, AOTAutograd, Inductor", ("compile",)),
    ("g++", ("c++",)),
    ("eager and references", ("eager",)),
    ("judge", ("judge",)),
    ("reduce (its own work)", ("reduce",)),
    ("confirm (repro.py in a fresh process)", ("confirm",)),
    ("exhibit (graphs and values of a finding)", ("exhibit",)),
    ("store", ("store",)),
    ("parent (plan, tell, wait)", ("parent",)),
    ("idle workers", ("idle",)),
)
#: The work itself; all else is overhead.
WORK = ("prove", "Dynamo, AOTAutograd, Inductor", "g++", "eager and references")
PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus/seeds")
    parser.add_argument("--max-time", default="10m")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--jobs", default="0", help="0: as fxmorph chooses")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fxmorph-bench-") as state:
        command = [sys.executable, "-m", "fxmorph", "run", options.path, "--max-time", options.max_time, "--json"]
        command += ["--seed", options.seed, "--state", state]
        command += ["--jobs", options.jobs] if options.jobs != "0" else []
        started = time.monotonic()
        total, finished, header = measured(command)
        wall = time.monotonic() - started
    if finished is None:
        print("the run did not finish; see its lines above", file=sys.stderr)
        return 1
    _table(finished, header, total, wall)
    return 0


def measured(
    command: list[str], hear: Callable[[dict], None] = lambda event: None, environment: Mapping[str, str] = {}
) -> tuple[float, dict | None, dict]:
    """CPU seconds of the command with all its descendants, and its last and first event.

    ``hear`` is told each event as it comes; ``environment`` is set beside this process's own.

    The fork server and workers outlive their parent by a moment; as their subreaper this process
    inherits and waits for them, so that the operating system's count holds them all.
    """
    if sys.platform != "linux":
        sys.exit("needs Linux: the processes of a run are counted through a subreaper")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = of_children()
    first: dict = {}
    last: dict | None = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as run:
        assert run.stdout is not None
        for line in run.stdout:
            event = json.loads(line)
            hear(event)
            if event["event"] == "run-started":
                first = event
            elif event["event"] == "run-finished":
                last = event
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if not pid:
            time.sleep(0.1)
    else:
        print("some processes of the run are still alive after 30 s; their time is missing", file=sys.stderr)
    return of_children() - before, last, first


def of_children() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _table(finished: dict, header: dict, total: float, wall: float) -> None:
    seconds: dict[str, float] = dict(finished["seconds"])
    rows = [(name, sum(seconds.pop(a, 0.0) for a in activities)) for name, activities in BUCKETS]
    rows += [(f"{name} (no bucket of its own)", used) for name, used in sorted(seconds.items())]
    counted = sum(used for _, used in rows)
    jobs = int(header.get("jobs", 1))
    print(f"torch {header.get('torch', '?')}, {jobs} workers, {finished['cases']} cases, {wall:.0f} s of wall time")
    print(f"{'activity':<40}{'CPU s':>9}{'share':>8}")
    for name, used in [*rows, ("unaccounted", total - counted)]:
        print(f"{name:<40}{used:>9.1f}{100 * used / total:>7.1f}%")
    print(f"{'all (operating system)':<40}{total:>9.1f}{100:>7.1f}%")
    work = sum(used for name, used in rows if name in WORK)
    print(f"outside {', '.join(WORK)}: {100 * (total - work) / total:.1f}% (unaccounted included)")
    print(f"of {wall * jobs:.0f} s that {jobs} cores had, {100 * total / (wall * jobs):.0f}% were used")


if __name__ == "__main__":
    sys.exit(main())
