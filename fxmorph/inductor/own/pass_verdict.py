"""A pass of the user's on the graphs of one program: did it fire, is it right, can that be proved?"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import module_structure
from fxmorph.inductor.own.own_pass import OwnPass, PassError, apply_pass
from fxmorph.inductor.own.pass_result import PassResult
from fxmorph.inductor.pair_repro import repro_text
from fxmorph.inductor.pairs import PairVerdict, judge_pair
from fxmorph.inductor.stages import StageGraph, stage_graphs
from fxmorph.inductor.validation import Validation, refuted, validate
from fxmorph.model import Kind, Status, ValuePlan
from fxmorph.programs.capture import CaptureFailed, inputs_under
from fxmorph.programs.inputs import InputSet, NotApplicable, dtype_name
from fxmorph.programs.load import LoadedSeed
from fxmorph.prove.prover import RUN_BUDGET, Prover

#: Stages whose graphs a pass of one's own can be given, as Inductor's ``*_custom_*_pass`` settings give them.
STAGES = (Stage.PRE_GRAD, Stage.JOINT, Stage.POST_GRAD)
#: Values of an input that are shown.
SHOWN_VALUES = 8


@dataclass
class Checker:
    """Checks one pass on many programs; graphs that were met before are left out."""

    own: OwnPass
    stage: Stage
    prover: Prover = field(default_factory=lambda: Prover(budget=RUN_BUDGET))
    _met: set[Any] = field(default_factory=set)

    def check(self, loaded: LoadedSeed, training: bool) -> Iterator[PassResult]:
        """One result for each new graph of a program.

        A program that gives no graph yields one result, UNSUPPORTED or SKIPPED, of part ``""``.
        """
        label = loaded.seed.label
        try:
            graphs = seed_graphs(loaded, self.stage, training)
        except CaptureFailed as error:
            yield PassResult(label, self.stage, "", False, Status.UNSUPPORTED, reason=str(error))
            return
        for graph in graphs:
            key = (module_structure(graph.gm), str(graph.inputs.specs() if graph.inputs else ""))
            if key not in self._met:
                self._met.add(key)
                yield self.one(label, graph)

    def one(self, label: str, graph: StageGraph) -> PassResult:
        """The pass on one graph; raises :class:`PassError` where it turns out to be none."""
        result = PassResult(label, self.stage, graph.part, False, Status.CLEAN, nodes=len(graph.gm.graph.nodes))
        try:
            made = apply_pass(self.own, graph.gm, self.stage)
        except PassError:
            raise  # what is no pass is not a wrong one
        except Exception as error:
            reason = f"the pass raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return replace(result, fired=True, status=Status.FINDING, kinds=(Kind.RAISES,), reason=reason)
        if not made.fired:
            return result
        if graph.inputs is None:
            return replace(result, fired=True, status=Status.SKIPPED, reason="the graph ran on nothing that is known")
        given = graph.inputs.rebuild()
        verdict = judge_pair(graph.gm, made.after, given, aliases=self.stage is not Stage.PRE_GRAD)
        shown = validate(graph.gm, made.after, given, judged=verdict, prover=self.prover)
        return _result(result, graph, made.after, verdict, shown)


def seed_graphs(loaded: LoadedSeed, stage: Stage, training: bool) -> list[StageGraph]:
    """The graphs of a seed's own program that a stage takes; raises :class:`CaptureFailed`."""
    made = loaded.fresh()
    found = stage_graphs(made.fn, training=training, drive=made.drive, prepared=False)
    return [g for g in found if g.stage is stage]


def _result(
    result: PassResult, graph: StageGraph, after: fx.GraphModule, verdict: PairVerdict, shown: Validation
) -> PassResult:
    verdict = refuted(verdict, shown)
    status, kinds, reason = verdict.status, verdict.kinds, verdict.reason
    out = replace(
        result, fired=True, status=status, kinds=kinds, reason=reason, outcome=shown.outcome.value, level=shown.level,
        method=shown.method, assumptions=shown.assumptions, unproved=shown.reason, seconds=shown.seconds,
    )  # fmt: skip
    if status is not Status.FINDING:
        return out
    assert graph.inputs is not None
    values = _under(verdict.plan, graph.inputs)
    names = [n.name for n in graph.gm.graph.nodes if n.op == "placeholder"]
    return replace(
        out,
        changes=tuple(changes(graph.gm.graph, after.graph)),
        inputs=tuple(_shown(n, v) for n, v in zip(names, values.rebuild(), strict=False)),
        plan=verdict.plan,
        repro=repro_text(graph.gm, after, values, f"{result.seed}, {result.stage} {result.part}: {reason}"),
    )


def _under(plan: ValuePlan | None, base: InputSet) -> InputSet:
    if plan in (None, ValuePlan.SEED):
        return base
    with contextlib.suppress(NotApplicable):
        return inputs_under(plan, base, 0)
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
