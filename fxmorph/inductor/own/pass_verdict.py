"""A pass of the user's on the graphs of one program: did it fire, is it right, can that be proved?"""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.own.own_pass import OwnPass, PassError, apply_pass
from fxmorph.inductor.pair_check import check_pair, graph_key
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.pair_repro import repro_text
from fxmorph.inductor.stages import StageGraph, stage_graphs
from fxmorph.model import Kind, Seed, Status, ValuePlan
from fxmorph.programs.capture import CaptureFailed, inputs_under
from fxmorph.programs.inputs import InputSet, NotApplicable, dtype_name
from fxmorph.programs.load import LoadedSeed, load_seed
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
    _met: set[str] = field(default_factory=set)

    def check(self, seed: Seed, training: bool) -> list[Pair]:
        """One record for each new graph of a program.

        A program that gives no graph has one record, UNSUPPORTED, of part ``""``.  Raises ``SeedFailed``, and
        :class:`PassError` where the pass turns out to be none.
        """
        loaded = load_seed(seed)
        try:
            graphs = seed_graphs(loaded, self.stage, training)
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
        nodes = len(graph.gm.graph.nodes)
        record = Pair(self.own.name, label, graph.part, key, 0, Status.CLEAN, fired=False, nodes=nodes)
        try:
            applied = apply_pass(self.own, graph.gm, self.stage)
        except PassError:
            raise  # what is no pass is not a wrong one
        except Exception as error:
            reason = f"the pass raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return replace(record, fired=True, status=Status.FINDING, kinds=(Kind.RAISES,), reason=reason)
        if not applied.fired:
            return record
        if graph.inputs is None:
            return replace(record, fired=True, status=Status.SKIPPED, reason="the graph ran on nothing that is known")
        pair = check_pair(record, graph, applied.after, self.prover, aliases=self.stage is not Stage.PRE_GRAD)
        return pair if pair.status is not Status.FINDING else _exhibited(pair, graph, applied.after, self.stage)


def seed_graphs(loaded: LoadedSeed, stage: Stage, training: bool) -> list[StageGraph]:
    """The graphs of a seed's own program that a stage takes; raises :class:`CaptureFailed`."""
    made = loaded.fresh()
    found = stage_graphs(made.fn, training=training, drive=made.drive, prepared=False)
    return [g for g in found if g.stage is stage]


def _exhibited(pair: Pair, graph: StageGraph, after: fx.GraphModule, stage: Stage) -> Pair:
    """A finding with what shows it."""
    assert graph.inputs is not None
    values = _under(pair.plan, graph.inputs)
    names = [n.name for n in graph.gm.graph.nodes if n.op == "placeholder"]
    return replace(
        pair,
        changes=tuple(changes(graph.gm.graph, after.graph)),
        inputs=tuple(_shown(n, v) for n, v in zip(names, values.rebuild(), strict=False)),
        repro=repro_text(graph.gm, after, values, f"{pair.source}, {stage} {pair.part}: {pair.reason}"),
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
