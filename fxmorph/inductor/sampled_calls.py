"""Graphs of one call each, of operators that decompositions take apart, on the samples of torch's own tests."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.inductor.inventory import Decomposition, listed
from fxmorph.inductor.stages import StageGraph
from fxmorph.programs.inputs import InputSet, dtype_name
from fxmorph.programs.operators import EMPTY, operator_name
from fxmorph.torchapi.dispatch import tree_map
from fxmorph.torchapi.fake import annotate
from fxmorph.torchapi.operator_samples import DTYPES, SampleCall, sample_calls

#: The part that such a graph is.
SAMPLED = "sample"
#: How many jobs the operators of torch's tests are divided among.
PARTS = 96
#: Turns of dtypes.
TURNS = len(DTYPES)


def decomposes(graph: StageGraph, unit: Unit) -> bool:
    """Whether a sampled graph is there for the unit."""
    return graph.part.startswith(f"{SAMPLED} {unit.name.removeprefix('decomposition.')} ")


def sampled_graphs(units: Collection[Unit], part: int, turn: int) -> Iterator[StageGraph]:
    """The graphs of one part of :data:`PARTS` in one of :data:`TURNS`, of the decompositions among ``units``."""
    handles = [listed(u.name).handle for u in units if u.kind is UnitKind.DECOMPOSITION]
    wanted = {handle.operator for handle in handles if isinstance(handle, Decomposition)}
    for call in sample_calls({o for o in wanted if operator_name(o) not in EMPTY}, part, PARTS, turn):
        with contextlib.suppress(Exception):  # what fake tensors do not take, or eager not twice
            yield _graph_of(call)


def _graph_of(call: SampleCall) -> StageGraph:
    graph, values = fx.Graph(), list[torch.Tensor]()

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        values.append(value)
        return graph.placeholder(f"input{len(values)}")

    node = graph.call_function(call.overload, *tree_map(placed, (call.args, call.kwargs)))
    with torch.no_grad():
        out = call.overload(*call.args, **call.kwargs)
    if isinstance(out, (tuple, list)):
        given = [i for i, o in enumerate(out) if o is not None]
        graph.output(tuple(graph.call_function(operator.getitem, (node, i)) for i in given))
    else:
        graph.output((node,))
    gm = fx.GraphModule({}, graph)
    inputs = InputSet.snapshot(values)
    annotate(gm, inputs.rebuild())
    part = f"{SAMPLED} {call.overload} {dtype_name(call.dtype)} of {call.operator}"
    return StageGraph(Stage.DECOMPOSITION, part, gm, inputs)
