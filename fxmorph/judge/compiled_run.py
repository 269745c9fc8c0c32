"""What interpreted kernels show, by a compiled run of the same program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fxmorph.judge.journal import note
from fxmorph.judge.trial import ToolchainMissing
from fxmorph.model import Case, CaseResult, CompileConfig, Kernels, Status, ValuePlan

#: Whose kernels interpreted ones are fused as.
FUSED_FOR = {Kernels.CPP: "C++", Kernels.GPU: "a GPU"}


def tried_compiled(
    case: Case, plan: ValuePlan, config: CompileConfig, found: CaseResult, judge: Callable[[Case], CaseResult]
) -> CaseResult:
    """Of what interpreted kernels show the finding of a compiled run where it has one, else one of this rung only.

    ``found`` is under ``plan``; it is returned where it is of a compiled run.
    """
    if config.kernels is Kernels.GENERATED:
        return found
    compiled = replace(case, compile=replace(case.compile, kernels=Kernels.GENERATED), plans=(plan,))
    try:
        result = judge(compiled)
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
