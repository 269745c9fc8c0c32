"""Seeds that keep state outside of what is made anew for each run: globals, attributes of classes, closures.

A second run of such a program is another program.  Loaded anew for each run it is the same one.
"""

from __future__ import annotations

from dataclasses import replace

from fxmorph.judge.trial import SeedSubject
from fxmorph.model import CaseResult, Status, ValuePlan, VerdictCode
from fxmorph.programs.load import LoadedSeed
from fxmorph.programs.observe import observe, same_observation

_UNSTEADY = frozenset({VerdictCode.UNSTEADY_EAGER, VerdictCode.NOT_SEEN_AGAIN})


def may_be_held(result: CaseResult) -> bool:
    """Whether state that an earlier run left behind may be why the case has its verdict."""
    return result.status is not Status.FINDING and any(v.code in _UNSTEADY for v in result.verdicts)


def steadied(loaded: LoadedSeed, input_seed: int) -> LoadedSeed:
    """The seed, which nothing has run since it was loaded, loaded anew for each run where eager runs agree only so."""
    if _steady(loaded, input_seed):
        return loaded
    other = replace(loaded, reloads=True)
    return other if _steady(other, input_seed) else loaded


def _steady(loaded: LoadedSeed, input_seed: int) -> bool:
    subject = SeedSubject(loaded)
    first, second = (
        observe(
            subject.fresh(ValuePlan.SEED, input_seed), no_grad=subject.no_grad,
            inference=subject.inference,
        )
        for _ in range(2)
    )  # fmt: skip
    return not first.raised and same_observation(first, second)
