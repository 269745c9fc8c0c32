"""Judges small builds of public architectures and writes the table of what came out.

    pip install transformers timm torchvision torch_geometric
    python bench/models.py [--name GLOB] [--mode MODE] [--out docs/models.md] [--results models.jsonl]

Each architecture of ``fxmorph seeds models`` whose library is installed is judged by ``fxmorph check`` in each mode:
in eval mode without gradients, in train mode with them, in bfloat16, with dynamic shapes.  Results are kept in a file
of lines as they come; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fxmorph.core.versions import version_of
from fxmorph.programs.architectures import ARCHITECTURES, Architecture

#: What each mode adds to ``fxmorph check``.
MODES: dict[str, tuple[str, ...]] = {
    "eval": (),
    "train": (),
    "bfloat16": ("--dtype", "bfloat16"),
    "dynamic": ("--compile", "dynamic=True"),
}
#: Verdicts that accuse.
ACCUSED = ("finding", "known")
#: What ``fxmorph run`` and ``fxmorph reduce`` made of findings, by architecture and mode.
EXPLAINED: dict[tuple[str, str], str] = {
    ("falcon", "train"): (
        "Accused is `codegen.CppTile2DKernel`, seen in 3 of 3 fresh processes: right on one thread, and gone on four "
        "where vectors lie along one dimension (by hand: with `torch._inductor.config.cpp.enable_loop_tail_vec = "
        "False`). Most likely it is pytorch/pytorch#191837, sums over columns on several threads "
        "(`corpus/regressions/pt191837_column_sums_on_threads.py`)."
    ),
    ("clip", "dynamic"): (
        "Seen by hand too, with `torch.compile(model, dynamic=True)` and a batch of one: the second result is the "
        "first one transposed, and the compiled model returns one tensor object for both, so that what changes "
        "the shape of one in place changes the other's. The values are right."
    ),
}


def judged(architecture: Architecture, mode: str) -> dict[str, object]:
    """The ``checked`` event of one architecture in one mode, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        seed = Path(folder) / f"{architecture.name}.py"
        seed.write_text(architecture.seed_text(training=mode == "train"), encoding="utf-8")
        command = [sys.executable, "-m", "fxmorph", "check", seed.name, "-j", "1", "--json", *MODES[mode]]
        start = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        seconds = time.monotonic() - start
    events = [json.loads(line) for line in done.stdout.splitlines()]
    checked = next((e for e in events if e["event"] == "checked"), None)
    said = {"verdict": "error", "reason": done.stderr.strip()[-300:]} if checked is None else checked
    kept = {key: said.get(key, "") for key in ("verdict", "stage", "reason")}
    return {"name": architecture.name, "mode": mode, **kept, "seconds": round(seconds)}


def page(results: Sequence[dict[str, object]]) -> Iterator[str]:
    """Lines of Markdown: a table, then what was said of whatever is not clean."""
    by_case = {(r["name"], r["mode"]): r for r in results}
    libraries = sorted({a.library for a in ARCHITECTURES})
    versions = ", ".join(f"{name} {version_of(name)}" for name in ("torch", *libraries))
    verdicts = Counter(str(r["verdict"]) for r in results)
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    yield from ("# Public architectures", "")
    yield (
        "Small builds with random weights, from configuration alone, as `fxmorph seeds models` writes them, each "
        "judged by `fxmorph check`. A cell is the verdict and the wall time on one core, start-up included; what the "
        "verdicts mean is in [policy.md](policy.md). An empty cell was not run."
    )
    modes = [mode for mode in MODES if any(r["mode"] == mode for r in results)]
    asked = "" if len(modes) == len(MODES) else "".join(f" --mode {mode}" for mode in modes)
    yield from ("", f"Made by `python bench/models.py{asked}`. {versions}. {len(results)} cases: {told}.", "")
    yield f"| architecture | library | {' | '.join(modes)} |"
    yield "|---" * (len(modes) + 2) + "|"
    for a in ARCHITECTURES:
        row = [by_case.get((a.name, mode)) for mode in modes]
        if any(row):
            cells = [f"{r['verdict']}, {r['seconds']} s" if r else "" for r in row]
            yield f"| {a.name} | {a.library} | {' | '.join(cells)} |"
    accused = [r for r in results if r["verdict"] in ACCUSED]
    yield from ("", "## Findings", "")
    for r in accused:
        explained = EXPLAINED.get((str(r["name"]), str(r["mode"])), "")
        yield f"- {r['name']}, {r['mode']} ({r['stage']}): {r['reason']}. {explained}".rstrip()
    if not accused:
        yield "None."
    others = [r for r in results if r["verdict"] not in ("clean", *ACCUSED)]
    yield from ("", "## Not clean, and no findings", "")
    yield from (f"- {r['name']}, {r['mode']}, {r['verdict']}: {str(r['reason']).splitlines()[0]}" for r in others)
    if not others:
        yield "None."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", default="*")
    parser.add_argument("--mode", choices=tuple(MODES), action="append")
    parser.add_argument("--out", type=Path, default=Path("docs/models.md"))
    parser.add_argument("--results", type=Path, default=Path("models.jsonl"))
    given = parser.parse_args()
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    results = [json.loads(line) for line in lines]
    done = {(r["name"], r["mode"]) for r in results}
    for mode in given.mode or MODES:
        for architecture in ARCHITECTURES:
            wanted = architecture.installed and fnmatch.fnmatch(architecture.name, given.name)
            if wanted and (architecture.name, mode) not in done:
                results.append(judged(architecture, mode))
                print(json.dumps(results[-1]), flush=True)
                with given.results.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    given.out.write_text("\n".join(page(results)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
