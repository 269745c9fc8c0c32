"""The check of a pass on one graph: what a unit of Inductor, or a user's own pass, made of it is judged and proved."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from torch import fx

from fxmorph.inductor.apply import module_structure
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.pairs import PLANS, judge_pair
from fxmorph.inductor.stages import StageGraph
from fxmorph.inductor.validation import refuted, validate
from fxmorph.model import ValuePlan
from fxmorph.prove.prover import Prover


def graph_key(graph: StageGraph) -> str:
    """A hash of the structure, and of what the inputs are like."""
    same = repr((module_structure(graph.gm), graph.inputs.specs() if graph.inputs else None))
    return hashlib.sha256(same.encode()).hexdigest()[:16]


def check_pair(
    record: Pair, graph: StageGraph, after: fx.GraphModule, prover: Prover | None, *, aliases: bool,
    strides: bool = False, identity: bool = True, notes: bool = True, plans: Sequence[ValuePlan] = PLANS,
) -> Pair:  # fmt: skip
    """``record`` with what is to be said of ``after``, which the pass made of ``graph``.

    ``graph`` has inputs.  ``aliases``, ``strides`` and ``identity`` of outputs, and ``notes`` of nodes, count as
    :func:`~fxmorph.inductor.pairs.judge_pair` says, on values of ``plans``.  What is refuted by values of the solver's
    is a finding too; without a ``prover`` nothing is proved or refuted.
    """
    assert graph.inputs is not None
    judged = judge_pair(
        graph.gm, after, graph.inputs.rebuild(), aliases=aliases, strides=strides, identity=identity, notes=notes,
        plans=plans, decomposed=record.unit.startswith("decomposition."),
    )  # fmt: skip
    if prover is None:
        return replace(
            record, fired=True, status=judged.status, kinds=judged.kinds, reason=judged.reason,
            plan=str(judged.plan or ""), edges=judged.edges,
        )  # fmt: skip
    shown = validate(graph.gm, after, graph.inputs.rebuild(), judged=judged, prover=prover)
    verdict = refuted(judged, shown)
    return replace(
        record, fired=True, status=verdict.status, kinds=verdict.kinds, reason=verdict.reason,
        plan=str(verdict.plan or ""), outcome=shown.outcome.value, level=shown.level, method=shown.method,
        assumptions=shown.assumptions, unproved=shown.reason, counterexample=shown.counterexample,
        edges=verdict.edges,
        proof_seconds=shown.seconds,
    )  # fmt: skip
