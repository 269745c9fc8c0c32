"""Whether `check`, `run --no-rewrites` and `explain` say the same of each program.

All three judge the programs of PATH as they are, with regressions and proposals where a corpus has them.  Exit code 1
where one program has two verdicts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

FXMORPH = [sys.executable, "-m", "fxmorph"]
#: What `explain` ends with; the verdict's words may be joined by a hyphen.
VERDICT = re.compile(r"^verdict (\S+)(?: ([a-z0-9,-]+))?", re.MULTILINE)
#: A program's verdict, and what is wrong where it is a finding.
Verdict = tuple[str, frozenset[str]]


def events(arguments: list[str], of: str) -> dict[str, Verdict]:
    """The verdict on each program, by the event lines of that name, of programs as they are."""
    done = subprocess.run(
        [*FXMORPH, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return {e["seed"]: _verdict(e["verdict"], e["kinds"]) for e in told if e["event"] == of and not e.get("number", 0)}


def explained(seed: str, state: list[str]) -> Verdict:
    done = subprocess.run(
        [*FXMORPH, "explain", seed, *state], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    said = VERDICT.search(done.stdout)
    if said is None:
        return "no verdict", frozenset()
    return _verdict(said[1].rstrip(":"), (said[2] or "").split(","))


def _verdict(status: str, kinds: Iterable[str]) -> Verdict:
    return status, frozenset(kinds) if status == "finding" else frozenset()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--state", help="where the runs are kept [nowhere]")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="fxmorph-verdicts-") as folder:
        state = ["--state", options.state or str(Path(folder, "state"))]
        all_of = [*options.paths, "--all", "--max-time", "12h", "-j", str(options.jobs), *state]
        checked = events(["check", *all_of], "checked")
        print(f"check: {len(checked)} programs", flush=True)
        run = events(["run", *all_of, "--no-rewrites", "--only", "seeds"], "case")
        print(f"run --no-rewrites: {len(run)} programs", flush=True)
        differing = 0
        with ThreadPoolExecutor(options.jobs) as pool:
            for seed, explanation in zip(checked, pool.map(partial(explained, state=state), checked), strict=True):
                told = {
                    "check": checked[seed],
                    "run": run.get(seed, ("not judged", frozenset())),
                    "explain": explanation,
                }
                if len(set(told.values())) > 1:
                    differing += 1
                    print(
                        f"{seed}:",
                        *(f"{by} {said} {','.join(sorted(k))};" for by, (said, k) in told.items()),
                        flush=True,
                    )
    print(f"{len(checked)} programs, {len(checked) - differing} with one verdict by all three commands")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
