"""What is left of campaigns whose parent is killed at random moments, again and again, and goes on with `--resume`.

A campaign is run undisturbed, then killed (`kill -9` of the parent alone) and resumed until it was killed so often; the
last time it is left to end.  Linux only.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.store import DATABASE, Store

#: In the environment of every process of one campaign.
MARK = "KILLED_RUNS_MARK"
#: Seconds that workers have to notice that their parent is gone.
GRACE = 15.0


def command(options: argparse.Namespace, state: Path, resume: bool) -> list[str]:
    told = ["--state", str(state), "-j", str(options.jobs), "-q", "--max-time", options.max_time]
    # Units alone are not counted by --max-cases, and what is judged of them hangs on the time.
    cases = [*options.paths, "--only", "seeds", "--seed", str(options.seed), "--max-cases", str(options.cases)]
    cases += options.run
    return [sys.executable, "-m", "fxmorph", "run", *(["--resume"] if resume else cases), *told]


def stored(state: Path) -> tuple[dict[str, str], set[str]]:
    """Verdicts by case, and cases that a finding speaks of."""
    if not (state / DATABASE).is_file():
        return {}, set()
    with Store(state, write=False) as store:
        runs = store.runs()
        verdicts = {id: str(result.status) for run in runs for id, result in store.results(run.id).items()}
        return verdicts, {f.case_id for f in store.findings(duplicates=True)}


def resumable(state: Path) -> bool:
    if not (state / DATABASE).is_file():
        return False
    with Store(state, write=False) as store:
        return store.unfinished_run() is not None


def left(mark: str) -> list[int]:
    """Processes of the campaign that are alive."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="seeds")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--max-time", default="5m", help="of each part; a quarter of it may go to findings")
    options, options.run = parser.parse_known_args()  # the rest is for `fxmorph run`
    rng = random.Random(options.seed)
    with TemporaryDirectory(prefix="fxmorph-killed-") as folder:
        started = time.monotonic()
        whole = Path(folder, "whole")
        subprocess.run(command(options, whole, resume=False), stdout=subprocess.DEVNULL, check=False)
        took = time.monotonic() - started
        expected, differing = stored(whole)
        print(f"undisturbed: {len(expected)} cases in {took:.0f} s: {dict(Counter(expected.values()))}", flush=True)

        kills = campaigns = lost = remained = lost_findings = 0
        others: dict[str, tuple[str | None, str | None]] = {}
        missed: set[str] = set()
        while kills < options.kills:
            state, campaigns = Path(folder, f"killed{campaigns}"), campaigns + 1
            before: dict[str, str] = {}
            seen: set[str] = set()
            ended = False
            while not ended:
                mark = f"{os.getpid()}-{rng.random()}"
                with subprocess.Popen(
                    command(options, state, resumable(state)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env={**os.environ, MARK: mark},
                ) as parent:  # fmt: skip
                    try:
                        parent.wait(rng.uniform(1.0, took * 0.7) if kills < options.kills else None)
                        ended = True
                    except subprocess.TimeoutExpired:
                        parent.send_signal(signal.SIGKILL)
                        parent.wait()
                        kills += 1
                deadline = time.monotonic() + GRACE
                while left(mark) and time.monotonic() < deadline:
                    time.sleep(0.2)
                remained += len(left(mark))
                now, of_findings = stored(state)
                lost += sum(now.get(id) != verdict for id, verdict in before.items())
                lost_findings += len(seen - of_findings)
                before, seen = now, of_findings
                what = "ended" if ended else f"kill {kills}"
                told = f"{len(now)} cases and {len(of_findings)} of findings stored"
                print(f"{what}: {told}; so far {lost} + {lost_findings} lost, {remained} processes left", flush=True)
            others |= {
                id: (expected.get(id), now.get(id)) for id in {*expected, *now} if expected.get(id) != now.get(id)
            }
            missed |= differing ^ of_findings
        print(f"killed {kills} times in {campaigns} campaigns of {len(expected)} cases, resumed to the end")
        print(f"stored cases lost or changed: {lost}; findings lost: {lost_findings}; processes left: {remained}")
        print(f"verdicts other than undisturbed: {len(others)}; cases with a finding on one side alone: {len(missed)}")
        for id, sides in others.items():
            print(f"  {id}: undisturbed {sides[0]}, killed {sides[1]}")
    return int(bool(lost or lost_findings or remained or others))


if __name__ == "__main__":
    sys.exit(main())
