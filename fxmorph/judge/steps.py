"""Which step of a plan a program is judged on: the first on which eager does what the plan is for.

For plan ``normal`` values are searched where no step is such (``fxmorph/judge/value_search.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from fxmorph.judge.integers import IntegerWatch, at_limits
from fxmorph.judge.journal import note
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.value_search import Make, RangeWatch, searched
from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import NotApplicable, is_integer_dtype
from fxmorph.programs.observe import observe
from fxmorph.programs.values import Grid, Limits, Range, Step

#: Grids in the order in which they are tried: the finest on which no operator can round is used.
GRIDS = (Grid.QUARTERS, Grid.INTEGERS, Grid.SIGNS)


class Steps:
    """Chooses once per plan which step of it a program is run on, or finds values."""

    def __init__(self) -> None:
        self._chosen: dict[ValuePlan, Step | None] = {}

    def of(self, plan: ValuePlan, make: Make, no_grad: bool) -> Step:
        """The step for the program that ``make`` makes; raises ``NotApplicable`` where the plan has none for it."""
        choose = CHOOSE.get(plan)
        if choose is None:
            return 0
        if plan not in self._chosen:
            self._chosen[plan] = choose(make, no_grad)
        chosen = self._chosen[plan]
        if chosen is None:
            raise NotApplicable(str(plan))
        return chosen


def _exact_grid(make: Make, no_grad: bool) -> Grid:
    """The first grid on which all intermediates are exact in any order; else small integers."""
    for grid in GRIDS:
        run = ReferenceRun(wide_alone=True)
        seen = observe(make(grid), no_grad=no_grad, exact=True, mode=run, keep=run.keep)
        if seen.raised:
            break
        if run.gates.exact:
            note(f"values: {grid.name.lower()}, on which all is exact")
            return grid
        if not run.gates.inexact_values:
            break
    return Grid.INTEGERS


def _normal_range(make: Make, no_grad: bool) -> Step | None:
    """The first step, else values found, on which nothing leaves the range of numbers.

    None where on the seed's own values nothing does, and where eager raises.
    """

    def left(step: Step) -> str | None:
        watch = RangeWatch()
        seen = observe(make(step), no_grad=no_grad, mode=watch)
        return None if seen.raised else watch.left

    for step in Range:
        name = left(step)
        if not name:
            return None if name is None else step or None
        note(f"values: {step.name.lower()}: {name} makes Inf or NaN of numbers")
    return searched(make, lambda found: left(found) == "")


def _integers_too(make: Make, no_grad: bool) -> Limits:
    """All tensors, where eager takes integers at their limits and only as numbers; else floating-point ones alone."""
    made = make(Limits.ALL)
    watch = IntegerWatch([t for t in made.tensors if at_limits(t)])
    if observe(made, no_grad=no_grad, mode=watch).raised or watch.stopped_at:
        note(f"values: integers stay: {watch.stopped_at or 'eager raises'}")
        return Limits.FLOATS
    return Limits.ALL


def _accepted(make: Make, no_grad: bool) -> int | None:
    """The only step, where eager does not raise on it: few operators take negative indices, and some do not look."""
    made = make(0)
    watch = IntegerWatch([t for t in made.tensors if is_integer_dtype(t.dtype)], unchecked=True)
    return None if observe(made, no_grad=no_grad, mode=watch).raised or watch.stopped_at else 0


#: Plans whose steps are chosen, and how.
CHOOSE: dict[ValuePlan, Callable[[Make, bool], Step | None]] = {
    ValuePlan.EXACT: _exact_grid,
    ValuePlan.NORMAL: _normal_range,
    ValuePlan.LIMITS: _integers_too,
    ValuePlan.NEGATIVE: _accepted,
}
