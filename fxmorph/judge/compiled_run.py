"""What interpreted kernels show, by a compiled run of the same program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fxmorph.core.clock import Clock
from fxmorph.judge.journal import note
from fxmorph.judge.ladder import Ladder, kinds_of
from fxmorph.judge.trial import Subject, ToolchainMissing, Trial, summary
from fxmorph.model import Case, CaseResult, CompileConfig, Kernels, Status, ValuePlan, accusations

#: Whose kernels interpreted ones are fused as.
FUSED_FOR = {Kernels.CPP: "C++", Kernels.GPU: "a GPU"}


def tried_compiled(
    case: Case, subject: Subject, plan: ValuePlan, config: CompileConfig, found: CaseResult, clock: Clock,
    judge: Callable[[Case, Subject, Clock], CaseResult],
) -> CaseResult:  # fmt: skip
    """Of what interpreted kernels show the finding of a compiled run where it has one, else one of this rung only.

    ``found`` is of ``subject`` under ``plan``; it is returned where it is of a compiled run.  What a compiled run shows
    in the same way, twice, has been through the ladder; of what it shows otherwise it is for ``judge`` to say.
    """
    if config.kernels is Kernels.GENERATED:
        return found
    compiled = replace(case, compile=replace(case.compile, kernels=Kernels.GENERATED), plans=(plan,))
    try:
        result = _shown_alike(compiled, subject, plan, found, clock) or judge(compiled, subject, clock)
    except ToolchainMissing as error:
        said = f"not compiled: {error}"
    else:
        said = f"{result.status} where it is compiled"
        if result.status is Status.FINDING:
            note(f"  {said}")
            return replace(result, case_id=case.id, compiled=True)
    note(f"  {said}")
    reason = f"shown by interpreted kernels alone (fused as for {FUSED_FOR[config.kernels]}; {said}): {found.reason}"
    return replace(found, status=Status.IR_ONLY, reason=reason)


def _shown_alike(case: Case, subject: Subject, plan: ValuePlan, found: CaseResult, clock: Clock) -> CaseResult | None:
    """The finding with what its compiled run says, if that accuses the same results of the same."""
    verdicts = [replace(v, plan=plan) for v in Trial(subject, case.compile, case.input_seed, clock).judge(plan)]
    accused = accusations(v for v in found.verdicts if v.plan is plan)
    if not accused or accusations(verdicts) != accused:
        return None
    if not kinds_of(verdicts) <= Ladder(subject, case.compile, case.input_seed, plan, clock).kinds():
        return None
    _, kinds, reason = summary(verdicts)
    before = tuple(v for v in found.verdicts if v.plan is not plan)
    return replace(found, kinds=kinds, reason=reason, verdicts=(*before, *verdicts))
