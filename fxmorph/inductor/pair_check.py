"""The check of a pass on one graph: what a unit of Inductor, or a user's own pass, made of it is judged and proved."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from torch import fx

from fxmorph.inductor.apply import module_structure
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.pairs import PLANS, SAFE_PLANS, judge_pair
from fxmorph.inductor.stages import StageGraph
from fxmorph.inductor.validation import refuted, validate
from fxmorph.prove.prover import Prover


def graph_key(graph: StageGraph) -> str:
    """A hash of the structure, and of what the inputs are like."""
    same = repr((module_structure(graph.gm), graph.inputs.specs() if graph.inputs else None))
    return hashlib.sha256(same.encode()).hexdigest()[:16]


def check_pair(
    record: Pair, graph: StageGraph, after: fx.GraphModule, prover: Prover, *, aliases: bool, strides: bool = False,
    prove: bool = True,
) -> Pair:  # fmt: skip
    """``record`` with what is to be said of ``after``, which the pass made of ``graph``.

    ``graph`` has inputs.  ``aliases`` and ``strides`` of outputs count as :func:`~fxmorph.inductor.pairs.judge_pair`
    says.  What is refuted by values of the solver's is a finding too; where it is not to
    ``prove``, nothing is, and values are plain ones.
    """
    assert graph.inputs is not None
    plans = PLANS if prove else SAFE_PLANS
    judged = judge_pair(graph.gm, after, graph.inputs.rebuild(), aliases=aliases, strides=strides, plans=plans)
    if not prove:
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
