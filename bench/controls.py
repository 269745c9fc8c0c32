"""Draws the list of negative controls: programs fixed before any of them is judged.

    python bench/controls.py [--out corpus/controls.jsonl] [--seed N]

Every seed as it is; seeds in float64, bfloat16 and float16 where eager runs them; seeds with
dynamic shapes; a variant of every seed, some of them in 16 bits.  Nothing is compiled.  Then

    fxmorph run --cases corpus/controls.jsonl --max-time 60m
    fxmorph run --cases corpus/controls.jsonl --backend eager
    fxmorph run --cases corpus/controls.jsonl --backend aot_eager

A finding among them is a bug that its ``repro.py`` shows, or a fault of the oracle; with the
backend ``eager`` there is nothing to find.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import Counter
from pathlib import Path

import torch

from fxmorph.campaign.case_list import Listed, write_list
from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import make_variant
from fxmorph.model import Case, CompileConfig, Seed, ValuePlan
from fxmorph.programs.capture import CaptureFailed
from fxmorph.programs.graph import Unprintable
from fxmorph.programs.load import SeedFailed, load_seed
from fxmorph.rewriting.claims import Unsound
from fxmorph.rules import Registry, load_rules
from fxmorph.torchapi.compiling import quiet

#: How many seeds are taken in each other dtype, with dynamic shapes, and as variants in 16 bits.
PER_DTYPE, DYNAMIC, NARROW = 26, 44, 18


def runs(seed: Seed, dtype: str) -> bool:
    """Whether eager runs the seed in this dtype."""
    try:
        made = load_seed(seed, dtype=dtype).fresh()
        with torch.no_grad():
            made.drive(made.fn)
    except Exception:
        return False
    return True


def variant(seed: Seed, where: str, number: int, dtype: str, rules: Registry) -> Listed | None:
    """The first variant from ``number`` on that takes a rewrite."""
    for k in range(number, number + 3):
        case = Case(seed, k, 0, (ValuePlan.SEED,), CompileConfig.make(), dtype=dtype)
        try:
            made = make_variant(case, load_seed(seed, dtype=dtype), rules, Clock())
        except (CaptureFailed, SeedFailed, Unprintable, Unsound):
            continue
        if made.recipe:
            return Listed(where, seed.hash, k, str(made.recipe), made.hash, dtype)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="corpus/seeds")
    parser.add_argument("--out", default="corpus/controls.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    rng = random.Random(f"controls {arguments.seed}")
    rules = load_rules()
    seeds, _ = find_seeds([arguments.seeds])
    out = Path(arguments.out)
    places = {s: os.path.relpath(s.path, out.parent or ".") for s in seeds}
    rows = [Listed(places[s], s.hash) for s in seeds]
    for dtype in ("float64", "bfloat16", "float16"):
        able = [s for s in rng.sample(seeds, len(seeds)) if runs(s, dtype)]
        rows += [Listed(places[s], s.hash, dtype=dtype) for s in able[:PER_DTYPE]]
    rows += [Listed(places[s], s.hash, dynamic=True) for s in rng.sample(seeds, DYNAMIC)]
    made = [variant(s, places[s], 1, "", rules) for s in seeds]
    for dtype in ("bfloat16", "float16"):
        able = [s for s in rng.sample(seeds, len(seeds)) if runs(s, dtype)]
        made += [variant(s, places[s], 4, dtype, rules) for s in able[: NARROW // 2]]
    rows += [row for row in made if row is not None]
    write_list(out, rows)
    kinds = Counter(
        ("variant" if r.recipe else "seed", r.dtype or "own dtypes", "dynamic" if r.dynamic else "static") for r in rows
    )
    for kind, count in sorted(kinds.items()):
        print(f"{count:5}  {', '.join(kind)}")
    print(f"{len(rows):5}  in {out}")


if __name__ == "__main__":
    main()
