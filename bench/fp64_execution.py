"""How much of what is allowed to kernels in fp64 programs use: those that are right little, or the oracle is too sharp.

    python bench/fp64_execution.py [corpus/seeds] [--dtype bfloat16] [--dynamic] [--most 5]

Each program is judged on its own values by both flavours of the ``ir`` rung.  Prints how many were executed in fp64
(those whose results have other bits than eager's), how many of their results could be compared, the largest part of
what is allowed (above 1 is an accusation) of each of the programs that need most, and CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

os.environ.update(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")

import torch

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge import fp64_execution, trial
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.model import CompileConfig, Kernels, ValuePlan
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.load import SeedFailed, load_seed
from fxmorph.torchapi.compiling import quiet, warm_imports


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="How much of what is allowed to kernels in fp64 programs use.")
    parser.add_argument("path", nargs="?", default="corpus/seeds")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--dynamic", action="store_true", help="compile for dynamic shapes")
    parser.add_argument("--most", type=int, default=5, help="programs that are told")
    asked = parser.parse_args(argv)
    quiet()
    warm_imports()
    torch.set_num_threads(1)
    seconds: list[float] = []
    parts: list[float] = []
    compared, executed = fp64_execution.part_of_allowed, fp64_execution.executed_in_fp64

    def noted(found: torch.Tensor, reference: Shadows) -> torch.Tensor:
        part = compared(found, reference)
        parts.append(float(part.max()) if part.numel() else 0.0)
        return part

    def timed(run: Callable[..., object]) -> dict[str, torch.Tensor]:
        before = time.process_time()
        found = executed(run)
        seconds.append(time.process_time() - before)
        return found

    fp64_execution.part_of_allowed, trial.executed_in_fp64 = noted, timed
    needed: dict[str, float] = {}
    slots = judged = 0
    for seed in find_seeds([asked.path])[0]:
        for kernels in (Kernels.CPP, Kernels.GPU):
            options = {"dynamic": True} if asked.dynamic else {}
            config = CompileConfig.make(options=options, kernels=kernels)
            parts.clear()
            try:
                subject = trial.SeedSubject(load_seed(seed, dtype=asked.dtype))
                trial.Trial(subject, config, 0, Clock()).judge(ValuePlan.SEED)
            except (SeedFailed, NotApplicable) as error:
                print(f"  {seed.label}: {error}")
                continue
            judged += 1
            slots += len(parts)
            needed[f"{seed.label} ({kernels})"] = max(parts, default=0.0)
    print(f"{judged} programs and flavours, {len(seconds)} executed in fp64, {slots} results compared, "
          f"median {statistics.median(seconds or [0.0]):.3f} CPU s")  # fmt: skip
    for name in sorted(needed, key=lambda n: -needed[n])[: asked.most]:
        print(f"  {needed[name]:.3f} of what is allowed: {name}")
    return int(max(needed.values(), default=0.0) > 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
