"""The ladder climbs with the accused results alone, where those show the same without the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.journal import noting
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import register_backend

pytestmark = pytest.mark.usefixtures("torch_quiet")

SEED = """
def make_inputs(): return [torch.linspace(-2, 2, 24)]
def fn(x): return x.sin(), x.cos(), x.tanh()
"""


def wrong_where(calls: int) -> Any:
    """A backend whose cosine is off by a tenth in graphs of so many calls at least."""

    def compile_(gm: Any, inputs: Any) -> Any:
        nodes = [n for n in gm.graph.nodes if n.op in ("call_function", "call_method")]
        if len(nodes) >= calls:
            for node in nodes:
                if node.target in ("cos", torch.cos, torch.ops.aten.cos.default):
                    with gm.graph.inserting_after(node):
                        more = gm.graph.call_function(torch.mul, (node, 1.1))
                    node.replace_all_uses_with(more, delete_user_cb=lambda user, more=more: user is not more)
            gm.recompile()
        return gm

    return aot_autograd(fw_compiler=compile_)


register_backend("fxmorph_cosine", wrong_where(1))
register_backend("fxmorph_cosine_among_three", wrong_where(3))


def judged(folder: Path, backend: str) -> tuple[CaseResult, str]:
    (folder / "seed.py").write_text("import torch\nMETA = {'no_grad': True}\n" + SEED)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    lines: list[str] = []
    with noting(lines):
        got = judge_case(Case(seed, 0, 0, (ValuePlan.SEED,), CompileConfig.make(backend)), Registry(), Clock())
    return got, "\n".join(map(str, lines))


def test_the_accused_result_stands_for_the_program(tmp_path: Path) -> None:
    got, said = judged(tmp_path, "fxmorph_cosine")
    assert got.status is Status.FINDING and got.kinds == (Kind.VALUE,) and "judged on out1 alone" in said
    assert {v.slot for v in got.verdicts if v.status is Status.FINDING} == {"out1"}


def test_what_shows_among_the_others_only_is_judged_among_them(tmp_path: Path) -> None:
    got, said = judged(tmp_path, "fxmorph_cosine_among_three")
    assert got.status is Status.FINDING and got.kinds == (Kind.VALUE,) and "alone" not in said
