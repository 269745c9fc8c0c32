"""What proposals add: units of Inductor that fire, with and without them, at equal cases and at equal CPU.

    python bench/proposals.py [corpus/] [--cases 200] [--minutes 15] [--seed N] [--jobs N]

Two runs of ``fxmorph run``, the second with ``--propose``, each with a state folder of its own.  CPU is that of
judging.  Then the findings of the second whose stage and unit the first has not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from fxmorph.core.store import Store
from fxmorph.model import CaseResult


def judged(options: argparse.Namespace, state: Path, more: list[str]) -> tuple[list[CaseResult], set[str]]:
    """The results of a run in order, and what its findings accuse."""
    command = [
        sys.executable, "-m", "fxmorph", "run", options.path, "--max-cases", str(options.cases), "--seed",
        str(options.seed), "--max-time", f"{options.minutes:g}m", "--state", str(state), "-q", *more,
    ]  # fmt: skip
    if options.jobs:
        command += ["-j", str(options.jobs)]
    code = subprocess.run(command).returncode
    if code not in (0, 1):
        raise SystemExit(code)
    with Store(state) as store:
        run = store.runs()[-1].id
        results = [result for _, _, result in sorted(store.cases(run), key=lambda row: row[0])]
        return results, {f"{f.stage} {f.unit}" for f in store.findings(run)}


def cpu(result: CaseResult) -> float:
    return sum(seconds for _, seconds in result.seconds)


def fired(results: list[CaseResult]) -> set[str]:
    return {unit for result in results for unit in result.fired}


def until(results: list[CaseResult], seconds: float) -> list[CaseResult]:
    """The results before so much CPU was used."""
    used, out = 0.0, []
    for result in results:
        used += cpu(result)
        if used > seconds:
            break
        out.append(result)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus/")
    parser.add_argument("--cases", type=int, default=200, help="of each run")
    parser.add_argument("--minutes", type=float, default=15.0, help="that a run may take, reduction included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fxmorph-bench-") as temp:
        without, accused = judged(options, Path(temp, "without"), [])
        with_them, accused_too = judged(options, Path(temp, "with"), ["--propose"])
    cases = min(len(without), len(with_them))
    seconds = min(sum(map(cpu, without[:cases])), sum(map(cpu, with_them[:cases])))
    for what, a, b in (
        (f"first {cases} cases", without[:cases], with_them[:cases]),
        (f"first {seconds:.0f} CPU s", until(without, seconds), until(with_them, seconds)),
    ):
        left, right = fired(a), fired(b)
        print(
            f"{what}: without {len(left)} units ({len(a)} cases, {sum(map(cpu, a)):.0f} CPU s), with {len(right)}"
            f" ({len(b)} cases, {sum(map(cpu, b)):.0f} CPU s): {len(right) / len(left) - 1:+.0%}"
        )
    print(f"accused with proposals alone: {', '.join(sorted(accused_too - accused)) or 'nothing'}")


if __name__ == "__main__":
    main()
