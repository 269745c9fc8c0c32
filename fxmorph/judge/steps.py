"""Which step of a plan a program is judged on: the first on which eager does what the plan is for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from fxmorph.inputs import NotApplicable, is_float_dtype
from fxmorph.judge.journal import note
from fxmorph.judge.shadow import EMPTY, Gates, ReferenceRun
from fxmorph.load import Invocation
from fxmorph.model import ValuePlan
from fxmorph.observe import observe
from fxmorph.torchapi.dispatch import TorchDispatchMode, schema_of, tree_leaves
from fxmorph.values import Grid, Range

#: The program, made fresh with the values of a step.
Make = Callable[[int], Invocation]
#: Grids in the order in which they are tried: the finest on which no operator can round is used.
GRIDS = (Grid.QUARTERS, Grid.INTEGERS, Grid.SIGNS)


class Certificate(ReferenceRun):
    """A reference run of the wide lane alone: all that says whether the run was exact."""

    def __init__(self) -> None:
        super().__init__()
        del self.lanes[1:]


class RangeWatch(TorchDispatchMode):
    """Notes in ``left`` the first operator that makes Inf or NaN of finite operands; "" where none does.

    Infinite scalars are operands: masks are made with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.left:
            return func(*args, **kwargs)
        finite = all(map(_finite, tree_leaves((args, kwargs))))  # before: operands may be written
        out = func(*args, **kwargs)
        name = schema_of(func).name.split("::")[1]
        if finite and name not in EMPTY and not all(map(_finite, tree_leaves(out))):
            self.left = name
        return out


def _finite(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or not is_float_dtype(value.dtype):
            return True
        return bool(torch.isfinite(value).all())
    return not isinstance(value, float) or math.isfinite(value)


class Steps:
    """Chooses once per plan which step of it a program is run on."""

    def __init__(self) -> None:
        self._chosen: dict[ValuePlan, int | None] = {}

    def of(self, plan: ValuePlan, make: Make, no_grad: bool) -> int:
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


def _normal_range(make: Make, no_grad: bool) -> Range | None:
    """The first step on which nothing leaves the range of numbers; None where the seed's own values do not."""
    for step in Range:
        watch = RangeWatch()
        seen = observe(make(step), lambda f: f, no_grad=no_grad, mode=watch)
        if seen.raised:
            return None
        if not watch.left:
            return step or None
        note(f"values: {step.name.lower()}: {watch.left} makes Inf or NaN of numbers")
    return None


def _accepted(make: Make, no_grad: bool) -> int | None:
    """The only step, where eager does not raise on it: few operators take negative indices."""
    return None if observe(make(0), lambda f: f, no_grad=no_grad).raised else 0


#: Plans whose steps are chosen, and how.
CHOOSE: dict[ValuePlan, Callable[[Make, bool], int | None]] = {
    ValuePlan.EXACT: _exact_grid,
    ValuePlan.NORMAL: _normal_range,
    ValuePlan.NEGATIVE: _accepted,
}
