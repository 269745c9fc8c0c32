"""The folder of a finding of the pass rung: a unit alone on a graph, and whole compiles of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from fxmorph.core.finding_parts import Draft
from fxmorph.core.records import to_json
from fxmorph.core.store import DiskError
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Finding, Kind
from fxmorph.triage.folder.environment import anonymous
from fxmorph.triage.folder.issue import NOUN, environment_part
from fxmorph.triage.folder.markdown import block, folded
from fxmorph.triage.folder.script_parts import MEMORY
from fxmorph.triage.folder.title import main_kind, title
from fxmorph.triage.folder.unit_words import labels, unit_in_words, where_to_look

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

{noting}def same(a, b):
    if a.dtype != b.dtype or a.shape != b.shape or not (a.is_floating_point() or a.is_complex()):
        return a.dtype == b.dtype and torch.equal(a, b)
    rtol = {{1: 0.3, 2: 1e-2}}.get(a.dtype.itemsize, torch.finfo(a.dtype).eps**0.55)  # float32: 2e-4; float64: 2e-9
    a, b = (t.to(torch.complex128 if t.is_complex() else torch.float64) for t in (a, b))
    return torch.allclose(a, b, rtol, rtol, equal_nan=True)

with torch.no_grad():
    eager = run(seed.fn)
    try:
        compiled = run(torch.compile(seed.fn))
    except Exception as error:
        sys.exit(f"torch.compile raises {{type(error).__name__}}: {{error}}")
{noted}for i, (a, b) in enumerate(zip(eager, compiled)):
    if not same(a, b):
        print(f"tensor {{i}}:\\n  eager    {{a}}\\n  compiled {{b}}")
        sys.exit(1)
sys.exit(len(eager) != len(compiled))
"""
_NOTED = """if {name}(eager) != {name}(compiled):
    print("{name}:\\n  eager   ", {name}(eager), "\\n  compiled", {name}(compiled))
    sys.exit(1)
"""
_STRIDES = """def strides(tensors):  # those of dimensions of one element say nothing
    return [[step for step, size in zip(t.stride(), t.shape) if size > 1] for t in tensors]

"""
_SHARED = (
    "\n".join(MEMORY)
    + """

def shared(tensors):  # pairs that are one tensor, and pairs with an element in one place
    pairs, places = [(i, j) for i in range(len(tensors)) for j in range(i)], [memory(t) for t in tensors]
    one = [(i, j) for i, j in pairs if tensors[i] is tensors[j]]
    return one, [(i, j) for i, j in pairs if places[i] & places[j]]

"""
)
#: What is compared besides values, dtypes and shapes where one of the kinds was seen: a function by its name.
_NOTES: Mapping[str, tuple[frozenset[Kind], str]] = {
    "strides": (frozenset({Kind.STRIDE}), _STRIDES),
    "shared": (frozenset({Kind.ALIAS, Kind.IDENTITY}), _SHARED),
}
_ALONE = """# fxmorph {id}: {unit} alone changes what this graph means
# Exits 1 while it does, 0 once it does not.  Needs fxmorph, seed.py and inputs.pt; {compiled}
import os, sys
from fxmorph.inductor.replaying import changes_meaning

sys.exit(changes_meaning(os.path.dirname(os.path.abspath(__file__)), {unit!r}, aliases={aliases}))
"""


def write_pass_finding(
    folder: Path, finding: Finding, pair: Pair, compiled: Sequence[str], shown: Set[Kind], versions: Mapping[str, str]
) -> None:
    """``repro.py``, ``issue.md``, ``finding.json``, the graphs before and after; raises :class:`DiskError`.

    ``compiled`` says what whole compiles of the graph showed, ``shown`` the kinds of difference of the one that showed
    the unit's; none where none did.
    """
    text = _whole(finding, shown) if shown else _alone(finding, compiled)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if pair.program:
            shutil.copytree(Path(pair.program).parent, folder, dirs_exist_ok=True)
            (folder / "repro.py").write_text(text, encoding="utf-8")
        (folder / "finding.json").write_text(json.dumps(to_json(finding), indent=1, ensure_ascii=False) + "\n")
        (folder / "issue.md").write_text(
            _issue(folder, finding, pair, compiled, bool(shown), versions), encoding="utf-8"
        )
    except OSError as error:
        raise DiskError(
            f"{folder}: cannot write the finding ({error.strerror}); free space or choose --state"
        ) from None


def _whole(finding: Finding, shown: Set[Kind]) -> str:
    seen = shown | set(finding.kinds)
    names = [name for name, (kinds, _) in _NOTES.items() if seen & kinds]
    return _WHOLE.format(
        id=finding.id,
        unit=finding.unit,
        noting="".join(_NOTES[name][1] for name in names),
        noted="".join(_NOTED.format(name=name) for name in names),
    )


def _alone(finding: Finding, compiled: Sequence[str]) -> str:
    return _ALONE.format(
        id=finding.id,
        unit=finding.unit,
        compiled="; ".join(compiled) or "not compiled as a whole",
        aliases=bool(_NOTES["shared"][0] & set(finding.kinds)),
    )


def _issue(
    folder: Path, finding: Finding, pair: Pair, compiled: Sequence[str], shows: bool, versions: Mapping[str, str]
) -> str:
    """In the form of PyTorch's template, as that of a program; ``folder`` holds the graphs."""
    what, words = NOUN.get(main_kind(finding), "what it computes"), unit_in_words(finding.unit)
    whole = (
        "`torch.compile` of this program shows it:" if shows else "No compile of a whole program was seen to show it:"
    )
    parts = [
        f"# {title(finding)}",
        "### 🐛 Describe the bug",
        f"Alone on a graph {words} changes {what}. {whole}",
        *_shown(folder, pair),
        f"Found by a fuzzer. Labels: {', '.join(f'`{label}`' for label in ('topic: fuzzer', *labels(finding)))}.",
        "### Versions",
        environment_part(Draft(), versions),
        folded("How it was found", "\n".join(_history(finding, pair, compiled, versions))),
    ]
    return "\n\n".join(parts) + "\n"


def _shown(folder: Path, pair: Pair) -> Iterator[str]:
    """The graph as a program, and what the unit makes of it; nothing where it has no text."""
    if pair.program:
        yield block(_program(folder), "python")
        yield from (folded(f"Graph {name} it", block(_graph(folder, name))) for name in ("before", "after"))


def _program(folder: Path) -> list[str]:
    """The graph as a function; its inputs lie beside it."""
    text = (folder / "seed.py").read_text(encoding="utf-8")
    start = text.find("def fn(")
    return text[start : text.find("\ndef make_inputs(")].strip().splitlines()


def _graph(folder: Path, name: str) -> list[str]:
    text = (folder / f"{name}.txt").read_text(encoding="utf-8")
    return text[max(text.find("graph():"), 0) :].rstrip().splitlines()


def _history(finding: Finding, pair: Pair, compiled: Sequence[str], versions: Mapping[str, str]) -> Iterator[str]:
    release = f" {versions['fxmorph']}" if "fxmorph" in versions else ""
    yield f"Finding `{finding.id}` of fxmorph{release}: `{finding.unit}`, {', '.join(finding.kinds)}."
    yield f"Graph of {anonymous(pair.source)} ({pair.part}), interpreted on inputs of plan {pair.plan or 'none'}."
    yield f"- {anonymous(finding.reason)}"
    if pair.counterexample:
        yield f"- Translation validation: {pair.outcome}; {pair.counterexample}"
    yield from (f"- {anonymous(said)}" for said in compiled)
    yield from where_to_look(finding)
    yield f"- `fxmorph passes show {finding.unit!r}` says where it is written and how to switch it off."
