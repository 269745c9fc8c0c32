"""The judgement of one graph and what passes made of it: values, proof, and what shows a difference."""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.own.stub_operators import is_stub
from fxmorph.inductor.own.tolerance import within
from fxmorph.inductor.pair_check import check_pair
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.pair_repro import repro_text
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Kind, Status, ValuePlan
from fxmorph.programs.capture import inputs_under
from fxmorph.programs.inputs import InputSet, NotApplicable, dtype_name
from fxmorph.programs.interpreter import program
from fxmorph.prove.prover import Prover
from fxmorph.torchapi.decompose import traced_really
from fxmorph.torchapi.dispatch import OpOverload
from fxmorph.torchapi.edge_dialect import calls_edge_dialect, to_aten
from fxmorph.torchapi.operator_checks import broken_promise, foreign_calls, is_foreign
from fxmorph.torchapi.stage_graphs import expand_functionalised, has_functionalised

#: Values of an input that are shown.
SHOWN_VALUES = 8


@dataclass
class PairJudge:
    """Judges pairs of graphs; ``rtol`` is a difference that the author of what made them allows."""

    prover: Prover
    rtol: float = 0.0
    _promises: dict[OpOverload, str] = field(default_factory=dict)

    def judged(
        self,
        record: Pair,
        graph: StageGraph,
        after: fx.GraphModule,
        *,
        prove: bool,
        aliases: bool,
        notes: bool,
        guilty_step: Callable[[StageGraph, InputSet], str] = lambda graph, values: "",
    ) -> Pair:
        """``record`` with what is to be said of ``after``; ``graph`` has inputs.

        ``aliases``: which results share memory counts; ``notes``: what nodes of ``after`` note of their results does.
        ``guilty_step`` names the step of several that a finding on these values is about.
        """
        inputs = graph.inputs
        assert inputs is not None
        graph, after = replace(graph, gm=_in_aten(graph.gm)), _in_aten(after)
        graph, after = replace(graph, gm=_expanded(graph.gm)), _expanded(after)
        if any(n.op == "call_module" for gm in (graph.gm, after) for n in gm.graph.nodes):
            graph, after = _of_operators(graph, after)
        prover = self.prover if prove else None
        pair = check_pair(record, graph, after, prover, identity=False, aliases=aliases, notes=notes)
        pair = replace(pair, broken=self._broken_promises(graph, after))
        if pair.status is not Status.FINDING:
            return pair
        if pair.broken:
            reason = f"an operator is not what torch was told of it: {pair.broken}; {pair.reason}"
            return replace(pair, status=Status.UNSUPPORTED, kinds=(), reason=reason)
        values = _under(pair.plan, inputs)
        if pair.kinds == (Kind.RAISES,) and (foreign := _foreign(after.graph)):
            reason = f"after it the graph calls {foreign}, which does not run here: {pair.reason}"
            return replace(pair, status=Status.UNSUPPORTED, kinds=(), reason=reason)
        if unknown := _unknown(graph.gm.graph, after.graph):
            reason = f"nothing is known of {unknown}, which one of both graphs calls: {pair.reason}"
            return replace(pair, status=Status.UNSUPPORTED, kinds=(), reason=reason)
        if self.rtol and pair.kinds == (Kind.VALUE,) and within(graph.gm, after, values, self.rtol):
            return replace(pair, status=Status.EXPECTED, kinds=(), reason=f"within --rtol {self.rtol}: {pair.reason}")
        if step := guilty_step(graph, values):
            pair = replace(pair, reason=f"{step}: {pair.reason}")
        return _exhibited(pair, graph, after, values)

    def _broken_promises(self, graph: StageGraph, after: fx.GraphModule) -> str:
        """Of operators of other libraries that either graph calls, each asked once, with what it is given there."""
        assert graph.inputs is not None
        called: dict[OpOverload, None] = {}
        for gm in (graph.gm, after):
            mine = [o for n in gm.graph.nodes for o in (n.target, *n.args) if isinstance(o, OpOverload)]
            mine = [o for o in mine if is_foreign(o)]
            called |= dict.fromkeys(mine)
            if self._promises.keys() >= set(mine):
                continue
            with contextlib.suppress(Exception):  # what raises is judged
                for operator, (args, kwargs) in foreign_calls(partial(_run, gm, graph.inputs)).items():
                    called.setdefault(operator)
                    if operator not in self._promises:
                        self._promises[operator] = "" if is_stub(operator) else broken_promise(operator, args, kwargs)
        return next((broken for o in called if (broken := self._promises.get(o, ""))), "")


def _run(gm: fx.GraphModule, inputs: InputSet) -> None:
    with torch.no_grad():
        program(gm)(*inputs.rebuild())


def _of_operators(graph: StageGraph, after: fx.GraphModule) -> tuple[StageGraph, fx.GraphModule]:
    """Both graphs traced to operators, which the reference computes in fp64; as they are where that fails."""
    assert graph.inputs is not None
    try:
        sides = [traced_really(program(gm), graph.inputs.rebuild()) for gm in (graph.gm, after)]
    except Exception:  # what raises is judged as it is
        return graph, after
    return replace(graph, gm=sides[0]), sides[1]


def _in_aten(gm: fx.GraphModule) -> fx.GraphModule:
    """With the operators that those of ExecuTorch's edge dialect stand for."""
    if not calls_edge_dialect(gm.graph):
        return gm
    copy = clone_module(gm)
    to_aten(copy)
    return copy


def _expanded(gm: fx.GraphModule) -> fx.GraphModule:
    """With operators that write called themselves: neither the reference nor the prover looks into the others."""
    if not has_functionalised(gm.graph):
        return gm
    copy = clone_module(gm)
    try:
        expand_functionalised(copy)
        return copy
    except Exception:  # an operator that has no fake kernel
        return gm


def _unknown(before: fx.Graph, after: fx.Graph) -> str:
    """A stand-in without a reference that one graph calls more often than the other; "" where there is none."""
    counts = [Counter(str(o) for n in g.nodes for o in (n.target, *n.args[:1]) if is_stub(o)) for g in (before, after)]
    return next(iter((counts[0] - counts[1]) + (counts[1] - counts[0])), "")


def _foreign(graph: fx.Graph) -> str:
    """An operator of a library that the graph calls; "" where it calls torch's alone."""
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and is_foreign(node.target):
            return str(node.target)
    return ""


def _exhibited(pair: Pair, graph: StageGraph, after: fx.GraphModule, values: InputSet) -> Pair:
    """A finding with what shows it."""
    names = [n.name for n in graph.gm.graph.nodes if n.op == "placeholder"]
    return replace(
        pair,
        changes=tuple(changes(graph.gm.graph, after.graph)),
        inputs=tuple(_shown(n, v) for n, v in zip(names, values.rebuild(), strict=False)),
        repro=repro_text(graph.gm, after, values, f"{pair.source}, {graph.stage} {pair.part}: {pair.reason}"),
    )


def _under(plan: str, base: InputSet) -> InputSet:
    if plan in ("", ValuePlan.SEED):
        return base
    with contextlib.suppress(NotApplicable):
        return inputs_under(ValuePlan(plan), base, 0)
    return base


def changes(before: fx.Graph, after: fx.Graph) -> list[str]:
    """The nodes that differ, ``-`` those of ``before`` and ``+`` those of ``after``."""
    old, new = ([str(n.format_node()) for n in g.nodes if n.op != "placeholder"] for g in (before, after))
    lines = difflib.unified_diff([_plain(x) for x in old], [_plain(x) for x in new], n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _plain(line: str) -> str:
    """``%a = aten.add.Tensor(%b, 1)`` for what fx prints with counts of users and keywords."""
    head, _, rest = line.partition(" : [num_users=")
    if not rest:
        return line
    target, _, given = rest.partition("target=")[2].partition("](args = (")
    if not given:  # an attribute
        return f"{head} = {target.removesuffix(']')}"
    args, _, keywords = given.partition("), kwargs = {")
    inside = [part for part in (args.rstrip(","), keywords.rstrip(")").rstrip("}")) if part]
    return f"{head} = {target.removeprefix('torch.ops.')}({', '.join(inside)})"


def _shown(name: str, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{name} = {value!r}"
    some = value.detach().reshape(-1)[:SHOWN_VALUES].tolist()
    values = ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in some)
    more = ", ..." if value.numel() > SHOWN_VALUES else ""
    return f"{name}: {dtype_name(value.dtype)} {list(value.shape)} strides {list(value.stride())} = {values}{more}"
