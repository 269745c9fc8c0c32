"""A graph that a unit was given, as a seed on disk: to compile it as a whole, and to show the unit alone again."""

from __future__ import annotations

import pprint
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.pairs import PairVerdict, judge_pair
from fxmorph.model import Status, ValuePlan
from fxmorph.programs.capture import inputs_under, lift_constants
from fxmorph.programs.graph import Unprintable, print_graph, read_graph
from fxmorph.programs.inputs import InputSet

_SEED = '''"""{title}"""
import os

import torch

META = {meta}

{text}

def make_inputs():
    return torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputs.pt"), weights_only=False)
'''


def export_program(
    folder: Path, title: str, before: fx.GraphModule, after: fx.GraphModule, inputs: InputSet, plan: ValuePlan,
    settings: dict[str, Any],
) -> str:  # fmt: skip
    """Write ``seed.py`` with its ``inputs.pt``, ``before.txt`` and ``after.txt``; the seed's path, "" if it has none.

    ``plan`` says which values show the difference; ``settings`` of Inductor's switch the unit on.
    Attributes of the graph become inputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "before.txt").write_text(f"{title}\n\n{before.graph}\n", encoding="utf-8")
    (folder / "after.txt").write_text(f"{after.graph}\n", encoding="utf-8")
    try:
        graph, constants = lift_constants(before)
        text = print_graph(graph)
    except Unprintable:
        return ""
    base = InputSet.snapshot([*inputs.rebuild(), *constants])
    given = base if plan is ValuePlan.SEED else inputs_under(plan, base, 0)
    torch.save([v.detach() if isinstance(v, torch.Tensor) else v for v in given.rebuild()], folder / "inputs.pt")
    meta = {"no_grad": True, "config": settings}
    file = folder / "seed.py"
    source = _SEED.format(title=" ".join(title.split()).replace('"""', "'''"), meta=pprint.pformat(meta), text=text)
    file.write_text(source, encoding="utf-8")
    return str(file)


def read_program(folder: Path) -> tuple[fx.Graph, list[Any]]:
    """Graph and inputs of the seed that :func:`export_program` wrote in ``folder``."""
    text = (folder / "seed.py").read_text(encoding="utf-8")
    start = text.index("def fn(")
    graph = read_graph(text[start : text.index("\ndef make_inputs(", start)].strip() + "\n")
    return graph, torch.load(folder / "inputs.pt", weights_only=False)


def judge_alone(
    graph: fx.Graph, inputs: list[Any], name: str, aliases: bool = False
) -> tuple[fx.GraphModule, PairVerdict] | None:
    """What the unit makes of a graph, judged; None where it does not fire.  Raises what the unit raises.

    ``aliases``: which outputs share memory with what counts.
    """
    from fxmorph.inductor.apply import apply_unit
    from fxmorph.inductor.inventory import listed
    from fxmorph.torchapi.fake import annotate

    gm = fx.GraphModule({}, graph)
    annotate(gm, inputs)
    applied = apply_unit(listed(name).unit, gm)
    return (applied.after, judge_pair(gm, applied.after, inputs, aliases=aliases)) if applied.fired else None


def changes_meaning(folder: str, name: str, aliases: bool = False) -> int:
    """Run the unit alone on the seed in ``folder`` again: 1 while it changes what the graph means, else 0."""
    judged = judge_alone(*read_program(Path(folder)), name, aliases)
    if judged is None:
        print("it does not fire any more")
        return 0
    verdict = judged[1]
    print(f"{verdict.status}: {', '.join(verdict.kinds)} {verdict.reason}")
    return int(verdict.status is Status.FINDING)
