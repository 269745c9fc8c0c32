"""Judged cases per CPU second of each rung of one campaign, beside compiling a program and comparing it by hand.

    python bench/throughput.py [corpus] [--max-time 5m] [--programs 12] [--seed N]

A campaign runs on one worker in a state folder of its own.  All of its CPU seconds, children included, are counted:
what no case accounts for (start, investigations, the parent) falls to the rungs in proportion to their cases' own.
Then some of the same seeds, drawn by ``--seed``, are run in eager, by plain ``torch.compile`` and compared with
``torch.allclose`` on one set of values, without gradients: (a) one after the other in a process that lasts, (b) each
in a fresh process.  A first program warms up what is cached for good (probes of the C++ compiler, its precompiled
headers) and does not count.

A *case* of the campaign is judged on several sets of values, with gradients, and has a reference; a *program* is a
seed, a variant, or one operator of a pack that is compiled at once.  A pair of the pass rung is a graph before and
after one unit.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from where_time_goes import measured, of_children

from fxmorph.core.operator_seeds import FORM, OperatorProgram
from fxmorph.core.store import Store
from fxmorph.model import Case

#: What stands beside the campaign; prints CPU seconds, children included, of each file.
PLAIN = """
import importlib.util, os, resource, sys, torch
from torch.utils._pytree import tree_leaves

def used():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in both)

def once(path):
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fn = module.make_fn() if hasattr(module, "make_fn") else module.fn
    torch._dynamo.reset()
    with torch.no_grad():
        torch.manual_seed(0)
        eager = tree_leaves(fn(*module.make_inputs()))
        torch.manual_seed(0)
        compiled = tree_leaves(torch.compile(fn)(*module.make_inputs()))
    return all(torch.allclose(a, b, equal_nan=True) for a, b in zip(eager, compiled) if isinstance(a, torch.Tensor))

torch.set_num_threads(1)
for path in sys.argv[1:]:
    before = used()
    try:
        once(path)
    except Exception as error:
        print(f"{path}: {type(error).__name__}", file=sys.stderr)
        continue
    print(used() - before, flush=True)
"""


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus", type=Path)
    parser.add_argument("--max-time", default="5m")
    parser.add_argument("--programs", type=int, default=12, help="how many are compiled by hand")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fxmorph-bench-") as folder:
        command = [sys.executable, "-m", "fxmorph", "run", str(given.path), "--max-time", given.max_time, "--json"]
        command += ["-j", "1", "--seed", str(given.seed), "--state", f"{folder}/state"]
        total, finished, _ = measured(command)
        if finished is None:
            print("the run did not finish; see its lines above", file=sys.stderr)
            return 1
        seconds, cases, programs = of_rungs(Path(folder) / "state")
        files = plain_programs(given.path)
        drawn = random.Random(given.seed).sample(files, min(given.programs + 1, len(files)))
        lasting, fresh = by_hand(drawn, folder)
    own = sum(seconds.values())
    print(f"{given.max_time} on one worker, {total:.0f} CPU s, of which {own:.0f} of cases; by hand {len(drawn) - 1}")
    print(f"by hand, (a) in a process that lasts {lasting:.2f}, (b) in fresh ones {fresh:.2f} CPU s a program")
    print(f"{'rung':8}{'cases':>8}{'programs':>10}{'CPU s':>9}{'a case':>9}{'a program':>11}{'x (a)':>8}{'x (b)':>8}")
    for rung, used in sorted(seconds.items()):
        whole = used * total / own
        each = whole / programs[rung]
        counts = f"{cases[rung]:8}{programs[rung]:10}{whole:9.1f}{whole / cases[rung]:9.3f}{each:11.3f}"
        print(f"{rung:8}{counts}{lasting / each:8.1f}{fresh / each:8.1f}")
    return 0


def of_rungs(state: Path) -> tuple[dict[str, float], Counter[str], Counter[str]]:
    """CPU seconds of the cases of each rung, how many there are, and how many programs or pairs are in them."""
    seconds: dict[str, float] = defaultdict(float)
    cases: Counter[str] = Counter()
    programs: Counter[str] = Counter()
    with Store(state, write=False) as store:
        run = store.last_run()
        assert run is not None
        for _, case, result in store.cases(run[0]):
            seconds[case.rung] += sum(used for _, used in result.seconds)
            cases[case.rung] += 1
            programs[case.rung] += programs_in(case)
        for _, judged in store.passes(run[0]):
            seconds["pass"] += judged["seconds"]
            cases["pass"] += 1
            programs["pass"] += len(judged["pairs"])
    return dict(seconds), cases, programs


def programs_in(case: Case) -> int:
    return len(OperatorProgram.of(case.seed).operators) if case.seed.form == FORM else 1


def plain_programs(folder: Path) -> list[Path]:
    """Seeds that are called once, with nothing said of how they are compiled."""
    seeds = folder / "seeds" if (folder / "seeds").is_dir() else folder
    texts = {path: path.read_text() for path in sorted(seeds.rglob("*.py"))}
    return [path for path, text in texts.items() if "def drive" not in text and "META" not in text]


def by_hand(files: Sequence[Path], folder: str) -> tuple[float, float]:
    """CPU seconds a program in a process that lasts, and in fresh processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}

    def run(cache: str, *paths: Path) -> list[float]:
        told = {**environment, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/{cache}"}
        done = subprocess.run(
            [sys.executable, "-c", PLAIN, *map(str, paths)], env=told, stdout=subprocess.PIPE, text=True
        )
        return [float(line) for line in done.stdout.splitlines()]

    lasting = run("lasting", *files)[1:]
    run("fresh", files[0])
    before = of_children()
    done = sum(len(run("fresh", path)) for path in files[1:])
    return sum(lasting) / len(lasting), (of_children() - before) / done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
