"""Whether campaigns that end at whatever moment account for all that they saw: exit code, table, last line, reports.

Runs the same campaign with one `--max-time` after another, from one second to `--longest`.  Every `--kill`-th is killed
(`kill -9`) at that moment instead and resumed for as long again.  Linux only.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from fxmorph.core.store import DATABASE, Store
from fxmorph.model import Status

#: What the last line of a run says of findings; known ones are counted apart.
LAST = re.compile(r"^\d+ cases?(?: \([^)]*\))?, (\d+) findings?, (\d+) known", re.MULTILINE)
ROW = re.compile(r"^│ ([0-9a-f]{12}) │", re.MULTILINE)
FXMORPH = [sys.executable, "-m", "fxmorph"]


def run(arguments: list[str], kill_after: float | None = None) -> tuple[int, str]:
    """Exit code and standard output; 137 where it was killed."""
    with subprocess.Popen(
        [*FXMORPH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        try:
            text, _ = parent.communicate(timeout=kill_after)
            return parent.returncode, text
        except subprocess.TimeoutExpired:
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            return 137, ""


def listed(state: Path) -> list[str]:
    done = subprocess.run(
        [*FXMORPH, "findings", "--json", "--state", str(state)], capture_output=True, text=True, check=False
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [e["id"] for e in events if e["event"] == "finding"]


def failures(junit: Path) -> int:
    return sum(1 for _ in ElementTree.parse(junit).iter("failure"))


def results(sarif: Path) -> int:
    told = json.loads(sarif.read_text())["runs"][0]["results"]
    return sum(1 for r in told if r.get("level") == "error")


def differing(state: Path) -> tuple[int, int]:
    """Cases that were judged to differ, and those of them of which no finding speaks."""
    if not (state / DATABASE).is_file():
        return 0, 0
    with Store(state, write=False) as store:
        found = {id for r in store.runs() for id, got in store.results(r.id).items() if got.status is Status.FINDING}
        spoken = {f.case_id for f in store.findings(duplicates=True)}
    return len(found), len(found - spoken)


def wrong_of(code: int, text: str, state: Path, junit: Path, sarif: Path) -> tuple[str, list[str]]:
    """A line about the run, and what does not agree in it."""
    cases, unspoken = differing(state)
    last = LAST.search(text)
    if last is None:
        return f"exit {code}, {cases} differing cases, no last line", ["no last line"] if cases or not code else []
    new, known = int(last[1]), int(last[2])
    numbers = {
        "table": len(set(ROW.findall(text))),
        "JUnit": failures(junit),
        "SARIF": results(sarif),
        "findings": len(listed(state)),
    }
    told = ", ".join(f"{name} {number}" for name, number in numbers.items())
    wrong = [
        f"{name} {number}, last line {new}" for name, number in numbers.items() if number not in (new, new + known)
    ]
    if unspoken:
        wrong.append(f"{unspoken} differing cases without a finding")
    if code == 0 and cases and not known:
        wrong.append(f"exit 0 with {cases} differing cases")
    if new and code != 1:
        wrong.append(f"exit {code} with {new} findings")
    return (
        f"exit {code}, {cases} differing cases ({unspoken} without a finding), last line {new} + {known}, {told}",
        wrong,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="seeds, of which some show findings")
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--longest", type=float, default=60.0, help="seconds")
    parser.add_argument("--kill", type=int, default=4, help="every how manieth is killed and resumed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    bad = seen = 0
    for moment in range(options.moments):
        seconds = 1 + (options.longest - 1) * moment / max(options.moments - 1, 1)
        with TemporaryDirectory(prefix="fxmorph-deadline-") as folder:
            state, junit, sarif = Path(folder, "state"), Path(folder, "junit.xml"), Path(folder, "run.sarif")
            told = ["--state", str(state), "-j", str(options.jobs), "--report", f"junit={junit}"]
            told += ["--report", f"sarif={sarif}", "--max-time", f"{seconds:.1f}s"]
            first = ["run", *options.paths, "--seed", str(moment), *told]
            how = f"{seconds:5.1f} s"
            if moment % options.kill == options.kill - 1:
                how += ", killed"
                # the deadline is not to end it first
                code, text = run([*first[:-1], f"{2 * seconds + 60:.0f}s"], kill_after=seconds)
                if (state / DATABASE).is_file():
                    code, text = run(["run", "--resume", *told])
            else:
                code, text = run(first)
            line, wrong = wrong_of(code, text, state, junit, sarif) if code != 137 else ("killed before it began", [])
            seen += differing(state)[0] > 0
            bad += bool(wrong)
            print(f"{how}: {line}", *(f"\n    WRONG: {what}" for what in wrong), flush=True)
    print(f"{options.moments} moments, {seen} of them with differing cases; {bad} do not agree")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
