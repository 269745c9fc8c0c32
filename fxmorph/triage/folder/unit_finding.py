"""The folder of a finding of the pass rung: a unit alone on a graph, and whole compiles of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fxmorph.core.records import to_json
from fxmorph.core.store import DiskError
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Finding

_WHOLE = """# fxmorph {id}: {unit} changes what this graph means; torch.compile shows it
# Exits 1 while torch.compile differs from eager, 0 once it does not.  Needs torch, seed.py and inputs.pt.
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch, torch._inductor.config
import seed

for name, value in seed.META["config"].items():
    setattr(torch._inductor.config, name, value)

def run(f):  # what is returned, and what the inputs hold afterwards
    inputs = seed.make_inputs()
    return [t for t in torch.utils._pytree.tree_leaves([f(*inputs), inputs]) if isinstance(t, torch.Tensor)]

def same(a, b):
    rtol, atol = (1e-2, 1e-2) if a.dtype.itemsize == 2 else (1e-4, 1e-5)
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol, atol, equal_nan=True)

with torch.no_grad():
    eager = run(seed.fn)
    try:
        compiled = run(torch.compile(seed.fn))
    except Exception as error:
        sys.exit(f"torch.compile raises {{type(error).__name__}}: {{error}}")
for i, (a, b) in enumerate(zip(eager, compiled)):
    if not same(a, b):
        print(f"tensor {{i}}:\\n  eager    {{a}}\\n  compiled {{b}}")
        sys.exit(1)
sys.exit(len(eager) != len(compiled))
"""
_ALONE = """# fxmorph {id}: {unit} alone changes what this graph means
# Exits 1 while it does, 0 once it does not.  Needs fxmorph, seed.py and inputs.pt; {compiled}
import os, sys
from fxmorph.inductor.replaying import changes_meaning

sys.exit(changes_meaning(os.path.dirname(os.path.abspath(__file__)), {unit!r}))
"""


def write_pass_finding(
    folder: Path, finding: Finding, pair: Pair, compiled: Sequence[str], shows: bool, versions: Mapping[str, str]
) -> None:
    """``repro.py``, ``issue.md``, ``finding.json``, the graphs before and after; raises :class:`DiskError`.

    ``compiled`` says what whole compiles of the graph showed, ``shows`` whether that is a difference.
    """
    template = _WHOLE if shows else _ALONE
    text = template.format(id=finding.id, unit=finding.unit, compiled="; ".join(compiled) or "not compiled as a whole")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if pair.program:
            shutil.copytree(Path(pair.program).parent, folder, dirs_exist_ok=True)
            (folder / "repro.py").write_text(text, encoding="utf-8")
        (folder / "finding.json").write_text(json.dumps(to_json(finding), indent=1, ensure_ascii=False) + "\n")
        (folder / "issue.md").write_text(_issue(finding, pair, compiled, versions), encoding="utf-8")
    except OSError as error:
        raise DiskError(
            f"{folder}: cannot write the finding ({error.strerror}); free space or choose --state"
        ) from None


def _issue(finding: Finding, pair: Pair, compiled: Sequence[str], versions: Mapping[str, str]) -> str:
    lines = [
        f"# {finding.unit} changes what a graph means: {', '.join(finding.kinds)}",
        f"Alone on the graph in `before.txt` ({pair.source}, {pair.part}), the unit makes the graph in `after.txt`.",
        f"Interpreted on the same inputs (plan {pair.plan or 'none'}): {finding.reason}",
        *([f"Translation validation: {pair.outcome}; {pair.counterexample}"] if pair.counterexample else []),
        *(f"- {said}" for said in compiled),
        f"`fxmorph passes show {finding.unit!r}` says where it is written and how to switch it off.",
        "### Versions",
        *(f"- {name} {version}" for name, version in versions.items()),
    ]
    return "\n\n".join(lines) + "\n"
