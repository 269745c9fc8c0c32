"""Which step of a pipeline of passes is to blame."""

from __future__ import annotations

from fxmorph.inductor.own.own_pass import apply_pass
from fxmorph.inductor.own.pass_forms import OwnPass
from fxmorph.inductor.pairs import judge_pair
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Status, ValuePlan
from fxmorph.programs.inputs import InputSet


def guilty_step(own: OwnPass, graph: StageGraph, values: InputSet) -> str:
    """``step 2 of 3, fold`` of the first step whose result differs from what it was given; "" where none is known."""
    try:
        steps = own.steps()
    except Exception:  # members that are no passes by themselves
        return ""
    gm = graph.gm
    for number, step in enumerate(steps if len(steps) > 1 else ()):
        try:
            applied = apply_pass(step, gm, graph.stage, values.rebuild)
        except Exception:
            return f"step {number + 1} of {len(steps)}, {step.name}"
        if applied.fired:
            verdict = judge_pair(
                gm, applied.after, values.rebuild(), aliases=True, identity=False, plans=(ValuePlan.SEED,)
            )
            if verdict.status is Status.FINDING:
                return f"step {number + 1} of {len(steps)}, {step.name}"
        gm = applied.after
    return ""
