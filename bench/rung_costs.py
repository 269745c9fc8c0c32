"""What a stored run's cases cost, by where they come from and by rung, and what they came to.

    python bench/rung_costs.py [STATE] [--slowest N]

``campaign/portfolio.py`` and ``campaign/unit_schedule.py`` give each sort a cost, by which the time is divided: these
are the numbers behind it.  Of units alone a case is a source of graphs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from fxmorph.core.store import Store
from fxmorph.model import Case, CaseResult


def sort_of(case: Case) -> str:
    """The source of the program, and how it was run."""
    source = "operator" if case.seed.form == "operator" else "seed"
    source = "generated" if Path(case.seed.path).name.startswith("generated_") else source
    kernels = "" if case.rung != "ir" else f" {case.compile.kernels}"
    return f"{'variant' if case.number else source} {case.rung}{kernels}"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="What the cases of a stored run cost.")
    parser.add_argument("state", nargs="?", type=Path, default=Path(".fxmorph"))
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    given = parser.parse_args(argv)
    with Store(given.state, write=False) as store:
        run = store.last_run()
        rows = store.cases(run[0]) if run else []
        alone = store.passes(run[0]) if run else []
    seconds: dict[str, list[float]] = defaultdict(list)
    came_to: dict[str, Counter[str]] = defaultdict(Counter)

    def cost(result: CaseResult) -> float:
        return sum(used for _, used in result.seconds)

    for _, case, result in rows:
        seconds[sort_of(case)].append(cost(result))
        came_to[sort_of(case)][result.status.value] += 1
    for source, judged in alone:
        words = source.split(" ")
        sort = "units " + (words[0] if words[0] in ("operator", "graphs", "pattern") else words[1])
        seconds[sort].append(judged["seconds"])
        came_to[sort].update(pair["status"] for pair in judged["pairs"])
    print(f"{'':24}{'cases':>7}{'CPU s':>9}{'mean':>7}{'median':>8}")
    for sort, used in sorted(seconds.items()):
        verdicts = ", ".join(f"{n} {status}" for status, n in came_to[sort].most_common())
        print(f"{sort:24}{len(used):7}{sum(used):9.1f}{sum(used) / len(used):7.2f}{median(used):8.2f}  {verdicts}")
    for _, case, result in sorted(rows, key=lambda row: -cost(row[2]))[: given.slowest]:
        print(f"{cost(result):7.1f}  {sort_of(case)}  {case.seed.label}  {result.status}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
