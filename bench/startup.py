"""CPU seconds until `--help` and usage errors answer, against those of `import torch`, in one run."""

from __future__ import annotations

import resource
import subprocess
import sys
from statistics import median

FXMORPH = ("-m", "fxmorph")
COMMANDS = {
    "fxmorph --help": (*FXMORPH, "--help"),
    "fxmorph run --help": (*FXMORPH, "run", "--help"),
    "fxmorph run missing": (*FXMORPH, "run", "missing"),
    "fxmorph rnu": (*FXMORPH, "rnu"),
    "import torch": ("-c", "import torch"),
}
ROUNDS = 5


def cpu_seconds(arguments: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            times[name].append(cpu_seconds(arguments))
    torch = median(times["import torch"])
    for name, seconds in times.items():
        print(f"{name:<22} {median(seconds):5.2f} s  {median(seconds) / torch:5.2f} of `import torch`")


if __name__ == "__main__":
    main()
