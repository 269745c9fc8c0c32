"""Many findings from few causes are few groups, and no group holds two causes.

Variants are made by the shipped rules and reduced by the real passes.  A stand-in says whether a candidate
shows the finding (a chain of operations, wherever it lies), so that hundreds can be judged; all causes are of one
kind and one whole-graph pass, so that nothing but the reduced graphs tells them apart.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.model import CompileConfig, Kind
from fxmorph.programs.canon import canonical
from fxmorph.programs.graph import copy_graph, function_of, read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rewriting.recipes import draw_recipe
from fxmorph.rewriting.workbench import Workbench
from fxmorph.triage.identity import fingerprint, skeleton
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.driver import Reduction
from fxmorph.triage.reduce.sequence import STRUCTURE

pytestmark = pytest.mark.usefixtures("torch_quiet")
#: The chain of operations of each cause, and the lines that hold it; ``a`` and ``b`` are 6 by 6 matrices.
CAUSES: dict[tuple[str, ...], str] = {
    ("flip", "_foreach_add_"): "p = a.flip(0)\n    q = torch._foreach_add_([b], [p])\n    r = b * 2",
    ("slice_scatter", "copy_"): "p = torch.slice_scatter(a, b, 0, 0, 6)\n    q = a.copy_(p)\n    r = q + 1",
    ("cumsum", "sort"): "p = a.cumsum(1)\n    q = p.sort(1)\n    k = q[0]\n    r = k - b",
    ("softmax", "argmax"): "p = a.softmax(-1)\n    q = p * 3\n    r = q.argmax(1)",
    ("matmul", "triu"): "p = a @ b\n    q = p.triu()\n    r = q.sum(0)",
    ("roll", "amax"): "p = a.roll(1, 0)\n    q = p.amax(1)\n    r = q + 2",
    ("cumprod",): "p = b * 0.5\n    q = p.cumprod(0)\n    r = q - a",
    ("topk", "gather"): "p = a.topk(3, 1)\n    q = p[1]\n    r = b.gather(1, q)",
    ("logsumexp", "expm1"): "p = a.logsumexp(1)\n    q = p * 0.1\n    r = q.expm1()",
    ("tril", "flip"): "p = a.tril()\n    q = p + b\n    r = q.flip(1)",
}
PROGRAM = """def fn(x, y):
    a = x * 1.5
    c = torch.relu(y)
    b = c + x
    {lines}
    u = a.sigmoid()
    s = u * b
    v = s.mT
    t = v + y
    return (r, t, s)
"""


def has_chain(graph: fx.Graph, chain: tuple[str, ...]) -> bool:
    """Whether each operation of the chain is computed from the one before."""
    longest: dict[fx.Node, int] = {}
    for node in graph.nodes:
        best = max((longest[n] for n in node.all_input_nodes), default=0)
        name = canonical(node).name if node.op in ("call_function", "call_method") else ""
        longest[node] = best + (best < len(chain) and name == chain[best])
    return len(chain) in longest.values()


def showing(chain: tuple[str, ...]) -> Callable[[Candidate], bool]:
    def shows(candidate: Candidate) -> bool:
        function_of(candidate.text)(*candidate.inputs.rebuild())
        return has_chain(candidate.graph, chain)

    return shows


def variant(graph: fx.Graph, inputs: InputSet, rules: Any, seed: int) -> fx.Graph:
    """The graph under three draws of rewrites."""
    rng = random.Random(seed)
    for _ in range(3):
        bench = Workbench(graph, inputs, no_grad=True)
        try:
            draw_recipe(bench, rules, rng)
        except (Unsound, Inapplicable):
            continue
        graph = copy_graph(bench.graph)
    return graph


def grouped(rules: Any, per_cause: int) -> dict[str, set[tuple[str, ...]]]:
    """Causes by fingerprint, of ``per_cause`` findings of each cause."""
    generator = torch.Generator().manual_seed(0)
    inputs = InputSet.snapshot([torch.randn(6, 6, generator=generator) for _ in range(2)])
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for chain, lines in CAUSES.items():
        base = read_graph(PROGRAM.format(lines=lines))
        made, seed = 0, 0
        while made < per_cause:
            seed += 1
            graph = variant(base, inputs, rules, seed)
            start = Candidate(graph, inputs, CompileConfig.make(), no_grad=True)
            if not has_chain(graph, chain):
                assert seed < 10 * per_cause + 50, chain
                continue
            made += 1
            best = Reduction(start, showing(chain), lambda _: True, 60.0).run(STRUCTURE)
            unit = "post_grad.reinplace_inplaceable_ops"
            found[fingerprint([Kind.VALUE], "inductor", unit, "", skeleton(best.graph))].add(chain)
    return found


def test_findings_of_few_causes_are_few_groups(rules: Any) -> None:
    found = grouped(rules, 1)
    assert all(len(causes) == 1 for causes in found.values()), found
    assert len(found) <= 11


@pytest.mark.slow
def test_two_hundred_findings_of_ten_causes_are_at_most_thirteen_groups(rules: Any) -> None:
    found = grouped(rules, 20)
    print(f"200 findings of {len(CAUSES)} causes: {len(found)} groups")
    assert all(len(causes) == 1 for causes in found.values()), found
    assert len(found) <= 13
