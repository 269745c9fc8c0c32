"""A program with those of its results alone that are accused: it is judged many times over for them.

Every rung of the ladder compiles the program again, and a program of eight calls costs as much as eight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fxmorph.core.clock import Clock
from fxmorph.judge.journal import note, noting
from fxmorph.judge.trial import Subject, Trial
from fxmorph.model import CompileConfig, Status, ValuePlan, Verdict, accusations

_RESULT = re.compile(r"out(\d+)")


def with_accused_results(
    subject: Subject, config: CompileConfig, plan: ValuePlan, input_seed: int, found: Sequence[Verdict], clock: Clock
) -> Subject:
    """The program with those of its results alone that verdicts accuse, if that shows the same accusations; else as
    it is.
    """
    accused = [v for v in found if v.status is Status.FINDING]
    places = [_RESULT.fullmatch(v.slot) for v in accused]
    if not accused or not all(places):
        return subject
    fewer = subject.returning(frozenset(int(place[1]) for place in places if place), input_seed)
    if fewer is None:
        return subject
    with noting(None):
        again = Trial(fewer, config, input_seed, clock).judge(plan)
    if accusations(again) != accusations(accused):
        return subject
    note(lambda: f"  judged on {', '.join(sorted({v.slot for v in accused}))} alone")
    return fewer
