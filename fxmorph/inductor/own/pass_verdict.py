"""A pass of the user's on the graphs of one program: did it fire, is it right, can that be proved?"""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied, clone_module
from fxmorph.inductor.graphs_from_code import MADE
from fxmorph.inductor.own.graph_source import GraphSource, seed_graphs
from fxmorph.inductor.own.guilty_step import guilty_step
from fxmorph.inductor.own.made_verdicts import MadeGraphs
from fxmorph.inductor.own.own_pass import OwnPass, PassError, apply_pass
from fxmorph.inductor.own.runs_here import require_runs
from fxmorph.inductor.own.stub_operators import is_stub
from fxmorph.inductor.own.tolerance import within
from fxmorph.inductor.pair_check import check_pair, graph_key
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.pair_repro import repro_text
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Kind, Seed, Status, ValuePlan
from fxmorph.programs.capture import CaptureFailed, inputs_under
from fxmorph.programs.inputs import InputSet, NotApplicable, dtype_name
from fxmorph.programs.interpreter import program
from fxmorph.programs.load import load_seed
from fxmorph.prove.prover import RUN_BUDGET, Prover
from fxmorph.torchapi.decompose import traced_really
from fxmorph.torchapi.dispatch import OpOverload
from fxmorph.torchapi.patterns import Source
from fxmorph.torchapi.stage_graphs import expand_functionalised, has_functionalised

#: Values of an input that are shown.
SHOWN_VALUES = 8


@dataclass
class Checker:
    """Checks one pass on many programs; graphs that were met before are left out.

    ``source`` says which graphs, ``rtol`` what difference the author allows, ``noted`` what replacements the pass
    registered when it was loaded.
    """

    own: OwnPass
    source: GraphSource = field(default_factory=GraphSource)
    prover: Prover = field(default_factory=lambda: Prover(budget=RUN_BUDGET))
    noted: Sequence[Source] = ()
    rtol: float = 0.0
    made: MadeGraphs | None = None
    _met: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        require_runs(self.own)

    def made_graphs(self, seconds: float) -> Iterator[Pair]:
        """One record for each graph that is made from the pass, and that it changes; :attr:`made` counts the rest."""
        self.made = MadeGraphs(self.own, self._judged, self.noted, self.source.made_stages(self.own.exported))
        yield from self.made.records(seconds)

    def check(self, seed: Seed, training: bool, stage: str = "") -> list[Pair]:
        """One record for each new graph of a program, of ``stage`` or that of the source.

        A program that gives no graph has one record, UNSUPPORTED, of part ``""``.  Raises ``SeedFailed``, and
        :class:`PassError` where the pass turns out to be none.
        """
        loaded = load_seed(seed)
        try:
            graphs = seed_graphs(loaded, replace(self.source, stage=stage or self.source.stage), training)
        except CaptureFailed as error:
            return [Pair(self.own.name, seed.label, "", "", 0, Status.UNSUPPORTED, reason=str(error), fired=False)]
        records = []
        for graph in graphs:
            key = graph_key(graph)
            if key not in self._met:
                self._met.add(key)
                records.append(self._one(seed.label, graph, key))
        return records

    def _one(self, label: str, graph: StageGraph, key: str) -> Pair:
        nodes, stage = len(graph.gm.graph.nodes), graph.stage.value
        record = Pair(self.own.name, label, graph.part, key, 0, Status.CLEAN, fired=False, nodes=nodes, stage=stage)
        inputs = graph.inputs
        try:
            applied = apply_pass(
                self.own, graph.gm, graph.stage, inputs.rebuild if inputs is not None else tuple,
                graph.part not in ("joint", "forward", "backward"),
            )  # fmt: skip
        except PassError:
            raise  # what is no pass is not a wrong one
        except NotImplementedError as error:
            return replace(record, status=Status.UNSUPPORTED, reason=f"the pass refuses: {error}")
        except Exception as error:
            reason = f"the pass raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return replace(record, fired=True, status=Status.FINDING, kinds=(Kind.RAISES,), reason=reason)
        if not applied.fired:
            return record
        if inputs is None:
            return replace(record, fired=True, status=Status.SKIPPED, reason="the graph ran on nothing that is known")
        return self._judged(record, graph, applied, True)

    def _judged(self, record: Pair, graph: StageGraph, applied: Applied, prove: bool) -> Pair:
        """A pass for exported graphs is not asked for memory that is shared, nor for notes that its caller renews."""
        made, exported = graph.part == MADE, self.own.exported
        graph, applied = replace(graph, gm=_expanded(graph.gm)), replace(applied, after=_expanded(applied.after))
        if any(n.op == "call_module" for gm in (graph.gm, applied.after) for n in gm.graph.nodes):
            graph, applied = _of_operators(graph, applied)
        pair = check_pair(
            record, graph, applied.after, self.prover if prove else None, identity=False,
            aliases=not exported if made else graph.stage is not Stage.PRE_GRAD,
            notes=not made or (graph.stage is not Stage.PRE_GRAD and not exported),
        )  # fmt: skip
        if pair.status is not Status.FINDING:
            return pair
        assert graph.inputs is not None
        values = _under(pair.plan, graph.inputs)
        if pair.kinds == (Kind.RAISES,) and (foreign := _foreign(applied.after.graph)):
            reason = f"after it the graph calls {foreign}, which does not run here: {pair.reason}"
            return replace(pair, status=Status.UNSUPPORTED, kinds=(), reason=reason)
        if unknown := _unknown(graph.gm.graph, applied.after.graph):
            reason = f"nothing is known of {unknown}, which one of both graphs calls: {pair.reason}"
            return replace(pair, status=Status.UNSUPPORTED, kinds=(), reason=reason)
        if self.rtol and pair.kinds == (Kind.VALUE,) and within(graph.gm, applied.after, values, self.rtol):
            return replace(pair, status=Status.EXPECTED, kinds=(), reason=f"within --rtol {self.rtol}: {pair.reason}")
        if step := guilty_step(self.own, graph, values):
            pair = replace(pair, reason=f"{step}: {pair.reason}")
        return _exhibited(pair, graph, applied.after, values)


def _of_operators(graph: StageGraph, applied: Applied) -> tuple[StageGraph, Applied]:
    """Both graphs traced to operators, which the reference computes in fp64; as they are where that fails."""
    assert graph.inputs is not None
    try:
        sides = [traced_really(program(gm), graph.inputs.rebuild()) for gm in (graph.gm, applied.after)]
    except Exception:  # what raises is judged as it is
        return graph, applied
    return replace(graph, gm=sides[0]), replace(applied, after=sides[1])


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
        if isinstance(node.target, OpOverload) and node.target.namespace not in ("aten", "prims"):
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
