"""Which step of a plan a program is judged on: the first on which eager does what the plan is for."""

from __future__ import annotations

from collections.abc import Callable

from fxmorph.judge.journal import note
from fxmorph.judge.shadow import Gates, ReferenceRun
from fxmorph.load import Invocation
from fxmorph.model import ValuePlan
from fxmorph.observe import observe
from fxmorph.values import Grid

#: The program, made fresh with the values of a step.
Make = Callable[[int], Invocation]
#: Grids in the order in which they are tried: the finest on which no operator can round is used.
GRIDS = (Grid.QUARTERS, Grid.INTEGERS, Grid.SIGNS)


class Certificate(ReferenceRun):
    """A reference run of the wide lane alone: all that says whether the run was exact."""

    def __init__(self) -> None:
        super().__init__()
        del self.lanes[1:]


class Steps:
    """Chooses once per plan which step of it a program is run on."""

    def __init__(self) -> None:
        self._chosen: dict[ValuePlan, int] = {}

    def of(self, plan: ValuePlan, make: Make, no_grad: bool) -> int:
        """The step for the program that ``make`` makes; raises what ``make`` raises."""
        if plan is not ValuePlan.EXACT:
            return 0
        if plan not in self._chosen:
            self._chosen[plan] = _exact_grid(make, no_grad)
        return self._chosen[plan]


def _exact_grid(make: Make, no_grad: bool) -> Grid:
    """The first grid on which all intermediates are exact in any order; else small integers."""
    for grid in GRIDS:
        run = Certificate()
        seen = observe(make(grid), lambda f: f, no_grad=no_grad, exact=True, mode=run, keep=run.keep)
        if seen.raised:
            break
        if run.gates.exact:
            note(f"values: {grid.name.lower()}, on which all is exact")
            return grid
        if not _depends_on_values(run.gates):
            break
    return Grid.INTEGERS


def _depends_on_values(gates: Gates) -> bool:
    """Whether other values may be exact where these were not: the operator that rounded is one that need not."""
    return ":" in gates.inexact_because and not gates.inexact_because.startswith("mean:")
