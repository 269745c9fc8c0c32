"""What judging costs beside compiling: CPU seconds of both, on the same programs.

    python bench/judging_cost.py [corpus/seeds] [--limit 80] [--seed N]

Each program is compiled once by Inductor with an empty cache (probes of the C++ compiler and its
precompiled headers are made before, by a program that is thrown away) and judged on each set of
values of a campaign: eager runs, the reference run with its envelope, all checks.  The reference
run is made only where eager and compiled differ in some bit; ``forced`` makes it on every set of
values, and compares every floating-point value by the whole numeric policy.

Runs of compiled code after the first set of values count as neither; nor does the ladder.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

os.environ.update(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")

import torch

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.numeric import compare
from fxmorph.judge.plans import PLANS
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.judge.trial import GraphSubject, LazyReference, SeedSubject, Subject, Trial
from fxmorph.model import SIZE_PLANS, CompileConfig, Seed, ValuePlan
from fxmorph.programs.inputs import InputSet, NotApplicable
from fxmorph.programs.load import load_seed
from fxmorph.programs.observe import Observation
from fxmorph.torchapi.compiling import quiet

#: Sets of values that one compile is judged on; other sizes are compiled anew.
VALUES = tuple(plan for plan in PLANS if plan not in SIZE_PLANS)
JUDGING = ("eager", "judge")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one program, children included."""

    name: str
    plans: int
    python: float  # Dynamo, AOTAutograd, Inductor
    cpp: float
    judging: float
    forced: float

    def ratios(self) -> tuple[float, float, float, float]:
        """(judging / g++, judging / whole compile), as the product runs and with the reference forced."""
        whole = self.cpp + self.python
        return self.judging / self.cpp, self.judging / whole, self.forced / self.cpp, self.forced / whole


class Remembering(Trial):
    """A trial that keeps what it saw last, for the reference run that is made afterwards."""

    last: tuple[Observation, LazyReference] | None = None

    def reference(self, plan: ValuePlan, eager: Observation) -> LazyReference:
        self.last = eager, super().reference(plan, eager)
        return self.last[1]

    def force(self) -> None:
        """Make the reference of the last plan if it was not needed, and compare every slot by it."""
        assert self.last is not None
        eager, reference = self.last
        if eager.raised:
            return
        with self.clock.activity("judge"):
            gates = reference.gates()
            for name, slot in eager.slots().items():
                if isinstance(slot.value, torch.Tensor) and slot.value.is_floating_point():
                    beside = torch.nextafter(slot.value, torch.full_like(slot.value, torch.inf))
                    shadows: Shadows | None = reference.shadows(name)
                    compare(slot.value, beside, shadows, gates)


def measure(name: str, subject: Subject, plans: Sequence[ValuePlan], cache: str) -> Cost | str:
    """Compile and judge one program with an empty cache; a text where there is nothing to compare."""
    os.mkdir(cache)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    clock = Clock()
    trial = Remembering(subject, CompileConfig.make(), 0, clock)
    python = cpp = judging = extra = 0.0
    count = 0
    for plan in plans:
        clock.take()
        try:
            trial.judge(plan)
        except NotApplicable:
            continue
        used = dict(clock.take())
        count += 1
        if count == 1:
            python, cpp = used.get("compile", 0.0), used.get("c++", 0.0)
        judging += sum(used.get(a, 0.0) for a in JUDGING)
        trial.force()
        extra += sum(seconds for _, seconds in clock.take())
    return Cost(name, count, python, cpp, judging, judging + extra) if cpp else "no C++ was compiled"


def warm_up(folder: str) -> None:
    """The probes, headers and imports that a process pays for once, whatever it compiles."""

    def thrown_away(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).softmax(-1).sum(0) + y.exp().mean(1)

    x = torch.rand(16, 16).requires_grad_()
    inputs = {ValuePlan.SEED: InputSet.snapshot([x, torch.rand(16, 16)])}
    measure("", GraphSubject(thrown_away, inputs, lambda c: c), (ValuePlan.SEED,), os.path.join(folder, "warm-up"))


def chosen(path: str, limit: int, seed: int) -> list[Seed]:
    """So many seeds of a folder, drawn without regard to order, told in order of name."""
    found, _ = find_seeds([path])
    return sorted(random.Random(seed).sample(found, min(limit, len(found))), key=lambda s: s.path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus/seeds")
    parser.add_argument("--limit", type=int, default=80, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="which programs are taken where there are more")
    options = parser.parse_args()
    torch.set_num_threads(1)
    quiet()
    seeds = chosen(options.path, options.limit, options.seed)
    if not seeds:
        print(f"no seeds in {options.path}", file=sys.stderr)
        return 2
    print(f"torch {torch.__version__}; CPU seconds; sets of values: {', '.join(VALUES)}")
    print(f"{'':<36}{'Inductor':>9}{'g++':>7}{'judging':>9}{'/g++':>6}{'/all':>6}{'forced':>8}{'/g++':>6}{'/all':>6}")
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="fxmorph-bench-") as folder:
        warm_up(folder)  # its folder holds the headers: kept to the end
        for number, seed in enumerate(seeds):
            name = os.path.basename(seed.path).removesuffix(".py")
            got: Cost | str
            try:
                got = measure(name, SeedSubject(load_seed(seed)), VALUES, os.path.join(folder, str(number)))
            except Exception as error:
                got = f"{type(error).__name__}: {error}".splitlines()[0]
            if isinstance(got, str):
                print(f"{name:<36}{got}", flush=True)
                continue
            costs.append(got)
            a, b, c, d = got.ratios()
            print(
                f"{name:<36}{got.python:>9.2f}{got.cpp:>7.2f}{got.judging:>9.2f}{a:>6.2f}{b:>6.2f}"
                f"{got.forced:>8.2f}{c:>6.2f}{d:>6.2f}",
                flush=True,
            )
    if not costs:
        print("nothing was compiled", file=sys.stderr)
        return 1
    _summary(costs)
    return 0


def _summary(costs: list[Cost]) -> None:
    print(f"\n{len(costs)} programs, {sum(c.plans for c in costs) / len(costs):.1f} sets of values each")
    print(f"{'ratio of CPU seconds':<56}{'median':>8}{'90%':>8}")
    columns = list(zip(*(c.ratios() for c in costs), strict=True))
    labels = [f"judging / {what}, {how}" for how in ("as it runs", "reference forced") for what in ("g++", "compile")]
    for label, values in zip(labels, columns, strict=True):
        ordered = sorted(values)
        high = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        print(f"{label:<56}{statistics.median(ordered):>8.2f}{high:>8.2f}")


if __name__ == "__main__":
    sys.exit(main())
