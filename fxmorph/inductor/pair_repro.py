"""A script that shows what a pass did to one graph: torch only, both graphs as text, the values in it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from fxmorph.programs.capture import lift_constants
from fxmorph.programs.graph import Unprintable, imports_of, literal, print_graph
from fxmorph.programs.inputs import InputSet, flat_storage
from fxmorph.programs.source import Spelling, make_inputs_text

#: Elements of all inputs beyond which there is no script.
MAX_ELEMENTS = 4096

_COMPARISON = '''
def seen(function):
    """Results, inputs after the call, and which results share memory with what."""
    given = make_inputs()
    with torch.no_grad():
        out = [t for t in tree_leaves(function(*given)) if isinstance(t, torch.Tensor)]
    held = [t for t in given if isinstance(t, torch.Tensor)] + out
    memory = [t.untyped_storage().data_ptr() for t in held]
    shares = [[i for i, m in enumerate(memory[:k]) if m == memory[k]] for k in range(len(held) - len(out), len(held))]
    return out, held[: len(held) - len(out)], shares


old = seen(before)
try:
    new = seen(after)
except Exception as error:
    print("before returns, after raises", type(error).__name__, error)
    sys.exit(1)
differs = old[2] != new[2] or len(old[0]) != len(new[0])
if old[2] != new[2]:
    print("results share memory with: before", old[2], "after", new[2])
for what, mine, theirs in (("result", old[0], new[0]), ("input afterwards", old[1], new[1])):
    for i, (a, b) in enumerate(zip(mine, theirs)):
        alike = a.dtype == b.dtype and a.shape == b.shape
        if not alike or not torch.equal(a.nan_to_num(12345), b.nan_to_num(12345)):
            differs = True
            print(what, i, "\\nbefore", a, a.dtype, "\\nafter ", b, b.dtype)
sys.exit(int(differs))
'''


def repro_text(before: fx.GraphModule, after: fx.GraphModule, inputs: InputSet, about: str) -> str:
    """The script, exit code 1 where the graphs differ in bits; "" for large inputs and for what has no text."""
    try:
        sides = [lift_constants(gm) for gm in (before, after)]
        values = inputs.rebuild()
        return _script(sides, values, about) if _elements(values) <= MAX_ELEMENTS else ""
    except Unprintable:
        return ""


def _elements(values: list[Any]) -> int:
    return sum(flat_storage(t).numel() for t in values if isinstance(t, torch.Tensor))


def _script(sides: list[tuple[fx.Graph, list[torch.Tensor]]], values: list[Any], about: str) -> str:
    held = max((constants for _, constants in sides), key=len)
    if any(c and len(c) != len(held) for _, c in sides) or _elements([*values, *held]) > MAX_ELEMENTS:
        raise Unprintable("constants that differ")
    texts = []
    for name, (graph, constants) in zip(("before", "after"), sides, strict=True):
        text = print_graph(graph, name)
        # Constants follow the other inputs; a graph that lost them takes them and looks away.
        texts.append(text if constants or not held else text.replace("):", ", *_):", 1))
    lines = ["# " + line for line in about.splitlines()]
    lines += ["# Exits 1 while the graphs differ.", "import sys", "import torch"]
    lines += [*imports_of("".join(texts)).splitlines(), "from torch.utils._pytree import tree_leaves", ""]
    lines += ["inf, nan = float('inf'), float('nan')", "", ""]
    return "\n".join(lines) + _inputs([*values, *held]) + "\n\n" + "\n\n".join(texts) + "\n" + _COMPARISON


def _inputs(values: list[Any]) -> str:
    spelling = Spelling(
        memory=lambda flat: f"torch.tensor({flat.tolist()!r}, dtype={flat.dtype})",
        ending=lambda t: "",
        other=literal,
        returned=lambda items: f"[{', '.join(items)}]",
    )
    return make_inputs_text(values, spelling)
