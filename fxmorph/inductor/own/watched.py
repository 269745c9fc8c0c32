"""What a hook or a pass did to a graph while something was compiled, judged afterwards."""

from __future__ import annotations

from fxmorph.core.units import Stage
from fxmorph.inductor.own.pair_judge import PairJudge
from fxmorph.inductor.pair_check import graph_key
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.snapshots import Snapshot
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Status


def step_name(after: Snapshot) -> str:
    """A user's own pass by its hook and its name, Inductor's by theirs."""
    return f"{after.unit} ({after.own})" if after.own else after.unit


def judged_step(judge: PairJudge, before: Snapshot, after: Snapshot, prove: bool) -> Pair:
    """The record of a step that changed a graph."""
    graph = StageGraph(after.stage, "watched", before.graph_module, before.inputs)
    record = Pair(
        step_name(after), f"graph {after.line}", "watched", graph_key(graph), 0, Status.CLEAN,
        nodes=len(before.graph_module.graph.nodes), stage=after.stage.value,
    )  # fmt: skip
    # Inductor renews the notes of post_grad graphs after all of its passes, and takes joint ones at their word.
    return judge.judged(
        record, graph, after.graph_module, prove=prove, aliases=after.stage is not Stage.PRE_GRAD,
        notes=after.stage is Stage.JOINT,
    )  # fmt: skip
