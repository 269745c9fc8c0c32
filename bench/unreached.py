"""Lines of the compiler that no seed reaches, by function: what a corpus cannot show to be wrong.

    pip install coverage
    python bench/unreached.py MODULE… [--seeds PATH…] [--threads 4] [--least 3] [--kernels ir]

MODULE is one of torch, as torch._inductor.codegen.cpp.  Each seed (``corpus/seeds/codegen_*.py``, or those of PATH) is
compiled and judged once on its own values, in this process.  Prints how many lines did not run, and of every function
with at least ``--least`` of them how many there are of how many, and where they begin.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")
DENSE = sorted(map(str, Path("corpus/seeds").glob("codegen_*.py")))


def main() -> int:
    parser = argparse.ArgumentParser(description="Lines of the compiler that no seed reaches.")
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="of torch, such as torch._inductor.codegen.cpp")
    parser.add_argument("--seeds", nargs="+", default=DENSE, metavar="PATH")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--least", type=int, default=3, metavar="LINES")
    parser.add_argument("--kernels", choices=("generated", "ir"), default="generated")
    given = parser.parse_args()
    try:
        import coverage
    except ImportError:
        print("needs the package coverage: pip install coverage", file=sys.stderr)
        return 2
    try:
        files = {name: str(Path(importlib.util.find_spec(name).origin)) for name in given.modules}
    except (ImportError, AttributeError, TypeError) as error:
        print(f"cannot find {' '.join(given.modules)}: {error}", file=sys.stderr)
        return 2
    ran = coverage.Coverage(data_file=None, include=list(files.values()))
    ran.start()
    try:
        _run(given.seeds, given.threads, given.kernels == "ir")
    finally:
        ran.stop()
    for name, file in files.items():
        _, statements, _, missing, _ = ran.analysis2(file)
        print(f"{name}: {len(missing)} of {len(statements)} lines did not run")
        _tell(_functions(ast.parse(Path(file).read_text())), statements, missing, given.least)
    return 0


def _tell(functions: dict[int, str], statements: list[int], missing: list[int], least: int) -> None:
    of_each: dict[str, list[int]] = {}
    for line in missing:
        of_each.setdefault(functions.get(line, "<module>"), []).append(line)
    total = Counter(functions.get(line, "<module>") for line in statements)
    for name, lines in sorted(of_each.items(), key=lambda item: -len(item[1])):
        if len(lines) >= least:
            print(f"{len(lines):5} of {total[name]:4}  {name}  from line {lines[0]}")


def _run(paths: list[str], threads: int, interpreted: bool) -> None:
    from fxmorph.core.clock import Clock
    from fxmorph.core.seeds import find_seeds
    from fxmorph.judge.trial import SeedSubject, Trial
    from fxmorph.model import CompileConfig, Kernels, ValuePlan
    from fxmorph.programs.load import load_seed
    from fxmorph.torchapi.compiling import quiet

    quiet()
    kernels = Kernels.CPP if interpreted else Kernels.GENERATED
    config = CompileConfig.make(kernels=kernels, threads=1 if interpreted else threads)
    for seed in find_seeds(paths)[0]:
        print(f"{seed.label} …", file=sys.stderr)
        Trial(SeedSubject(load_seed(seed)), config, 0, Clock()).judge(ValuePlan.SEED)


def _functions(tree: ast.AST, inside: str = "") -> dict[int, str]:
    """The innermost function or class of each line that is in one."""
    found: dict[int, str] = {}
    for node, name in _named(tree, inside):
        found |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
        found |= _functions(node, name)
    return found


def _named(tree: ast.AST, inside: str) -> Iterator[tuple[ast.FunctionDef | ast.ClassDef, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node, f"{inside}.{node.name}" if inside else node.name
        else:
            yield from _named(node, inside)


if __name__ == "__main__":
    sys.exit(main())
