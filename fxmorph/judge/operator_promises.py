"""Custom operators that do otherwise than their schemas and fake kernels say: what is compiled of them hangs on that.

A compiler may move, drop and lay out calls as the schema allows.  A difference in a program whose operator writes
what it does not say, or returns another shape than its fake kernel, is its author's to mend.
"""

from __future__ import annotations

from fxmorph.judge.trial import Trial, as_is
from fxmorph.model import ValuePlan
from fxmorph.torchapi.operator_checks import broken_promise, foreign_calls


def broken_promises(trial: Trial, plan: ValuePlan) -> str:
    """What operators of the program break of their promises on a plan's values; "" where none does, or there is none.

    Raises what the program raises in eager.
    """
    calls = foreign_calls(lambda: trial.observe(plan, as_is))
    broken = [broken_promise(operator, args, kwargs) for operator, (args, kwargs) in calls.items()]
    return "; ".join(text for text in broken if text)
