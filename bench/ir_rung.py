"""The ir rung on programs as they are: verdicts by flavour, and CPU seconds beside those of the cpu rung.

    python bench/ir_rung.py [corpus/seeds] [--dynamic] [--limit 106] [--compiled 20] [--graphs 40] [--seed N]

Each program is judged on its own values, once by each flavour; ``--compiled`` so many of them at the cpu rung too,
with an empty cache.  ``--graphs``: of so many captured graphs what compiling without Dynamo, running and comparing
with eager takes.  All in one process, warmed up by a program that is thrown away.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence

os.environ.update(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")

import torch
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CompileConfig, Kernels, Rung, Seed, Status, ValuePlan
from fxmorph.programs.capture import CaptureFailed, capture_torch
from fxmorph.programs.load import SeedFailed, load_seed
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import configured, quiet, reset, warm_imports

INTERPRETED = (Kernels.CPP, Kernels.GPU)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Verdicts and CPU seconds of the ir rung.")
    parser.add_argument("path", nargs="?", default="corpus/seeds")
    parser.add_argument("--dynamic", action="store_true", help="compile for dynamic shapes")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--compiled", type=int, default=20, help="judged at the cpu rung too")
    parser.add_argument("--graphs", type=int, default=40, help="compiled without Dynamo")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(argv)
    quiet()
    warm_imports()
    torch.set_num_threads(1)
    seeds, _ = find_seeds([asked.path])
    random.Random(asked.seed).shuffle(seeds)
    options = {"dynamic": True} if asked.dynamic else {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for kernels in Kernels:
            judged(seeds[0], kernels, options)
        seconds = verdicts(seeds[: asked.limit], options)
        beside_compiled(seeds[: asked.compiled], options, seconds)
        without_dynamo(seeds[: asked.graphs])
    return 0


def judged(seed: Seed, kernels: Kernels, options: dict[str, bool]) -> tuple[Status, str, float, float]:
    """The verdict, why, and CPU seconds, children included: of all of it, and of compiling and running."""
    rung = Rung.CPU if kernels is Kernels.GENERATED else Rung.IR
    case = Case(seed, 0, 0, (ValuePlan.SEED,), CompileConfig.make(options=options, kernels=kernels), rung=rung)
    before = spent()
    result = judge_case(case, Registry(), Clock())
    return result.status, result.reason, spent() - before, dict(result.seconds).get("compile", 0.0)


def spent() -> float:
    return sum(os.times()[:4])


def verdicts(seeds: Sequence[Seed], options: dict[str, bool]) -> dict[tuple[Seed, Kernels], float]:
    """CPU seconds of each seed that was judged by each flavour."""
    seconds: dict[tuple[Seed, Kernels], float] = {}
    for kernels in INTERPRETED:
        counts: Counter[str] = Counter()
        compiling: list[float] = []
        for seed in seeds:
            status, reason, took, compiled = judged(seed, kernels, options)
            seconds[seed, kernels] = took
            compiling.append(compiled)
            counts[status.value] += 1
            if status in (Status.FINDING, Status.IR_ONLY, Status.UNSUPPORTED, Status.ERROR):
                print(f"  {kernels} {seed.label}: {status}: {reason[:300]}", flush=True)
        mine = [seconds[seed, kernels] for seed in seeds]
        told = ", ".join(f"{n} {status}" for status, n in counts.most_common())
        print(f"{kernels}: {len(seeds)} seeds: {told}; median {statistics.median(mine):.2f} CPU s a case, "
              f"{statistics.median(compiling):.2f} of them compiling and running", flush=True)  # fmt: skip
    return seconds


def beside_compiled(
    seeds: Sequence[Seed], options: dict[str, bool], seconds: dict[tuple[Seed, Kernels], float]
) -> None:
    compiled = {seed: judged(seed, Kernels.GENERATED, options)[2] for seed in seeds}
    if not compiled:
        return
    print(f"cpu rung: {len(seeds)} seeds: median {statistics.median(compiled.values()):.2f} CPU s a case")
    for kernels in INTERPRETED:
        shares = [seconds[seed, kernels] / compiled[seed] for seed in seeds]
        print(f"{kernels} beside it, case by case: median {statistics.median(shares):.3f} of its CPU seconds")


def without_dynamo(seeds: Sequence[Seed]) -> None:
    """CPU seconds of a captured graph: compiled by Inductor, run and compared with eager."""
    times: dict[Kernels, list[float]] = {kernels: [] for kernels in INTERPRETED}
    compiling: dict[Kernels, list[float]] = {kernels: [] for kernels in INTERPRETED}
    for seed in seeds:
        try:
            loaded = load_seed(seed)
            captured = capture_torch(loaded.fresh(0), loaded.config(CompileConfig()), True)
        except (CaptureFailed, SeedFailed):
            continue
        for graph in captured[:1]:
            for kernels in INTERPRETED:
                module = fx.GraphModule(torch.nn.Module(), graph.graph)
                before = spent()
                reset()
                with configured(CompileConfig.make(kernels=kernels)), torch.no_grad():
                    try:
                        compiled = torch._inductor.compile(module, graph.inputs.rebuild())
                        between = spent()
                        made = compiled(*graph.inputs.rebuild())
                        wanted = module(*graph.inputs.rebuild())
                        torch.testing.assert_close(made, wanted, rtol=1e-3, atol=1e-3, equal_nan=True)
                    except Exception as error:
                        print(f"  without Dynamo, {kernels} {seed.label}: {type(error).__name__}: {str(error)[:120]!r}")
                        continue
                times[kernels].append(spent() - before)
                compiling[kernels].append(between - before)
    for kernels, took in times.items():
        if took:
            mean, median = statistics.mean(took), statistics.median(took)
            own = statistics.mean(compiling[kernels])
            print(f"{kernels} without Dynamo: {len(took)} graphs: mean {mean:.3f} ({own:.3f} until Inductor has its "
                  f"kernels), median {median:.3f} CPU s, {60 / mean:.0f} a minute of one core")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
