"""CPU seconds until commands that need no torch answer, against those of `import torch`, in one run; then wall seconds
until `check` has judged one small seed, with an empty compile cache and again.

A state folder as the argument: those that read what a run stored, too.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

FXMORPH = ("-m", "fxmorph")
COMMANDS = {
    "fxmorph --help": (*FXMORPH, "--help"),
    "fxmorph run --help": (*FXMORPH, "run", "--help"),
    "fxmorph run missing": (*FXMORPH, "run", "missing"),
    "fxmorph rnu": (*FXMORPH, "rnu"),
    "fxmorph passes": (*FXMORPH, "passes"),
    "import torch": ("-c", "import torch"),
}
STORED = ("coverage", "cases", "findings")
SEED = Path(__file__).parents[1] / "corpus" / "seeds" / "mlp_swiglu_chunk.py"
ROUNDS, CHECKS = 5, 3


def cpu_seconds(arguments: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_seconds() -> tuple[float, float]:
    """Wall seconds of the first `check` in a new state folder, and of the next."""
    with tempfile.TemporaryDirectory() as state:
        times = [time.monotonic()]
        for _ in range(2):
            command = [sys.executable, *FXMORPH, "check", str(SEED), "--state", state]
            subprocess.run(command, capture_output=True, check=True)
            times.append(time.monotonic())
    return times[1] - times[0], times[2] - times[1]


def main() -> None:
    commands = dict(COMMANDS)
    for state in sys.argv[1:]:
        commands |= {f"fxmorph {name}": (*FXMORPH, name, "--state", state) for name in STORED}
    cpu_seconds(commands["fxmorph passes"])  # which lists the units once, and remembers them
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, arguments in commands.items():
            times[name].append(cpu_seconds(arguments))
    torch = median(times["import torch"])
    for name, seconds in times.items():
        print(f"{name:<22} {median(seconds):5.2f} s  {median(seconds) / torch:5.2f} of `import torch`")
    first, again = zip(*(check_seconds() for _ in range(CHECKS)), strict=True)
    print(f"fxmorph check, wall    {median(first):5.2f} s with an empty compile cache, {median(again):.2f} s again")


if __name__ == "__main__":
    main()
