"""Which step of a plan a program is judged on: the first on which eager does what the plan is for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from fxmorph.inputs import NotApplicable, is_float_dtype, storage_key
from fxmorph.judge.journal import note
from fxmorph.judge.shadow import EMPTY, Gates, ReferenceRun
from fxmorph.load import Invocation
from fxmorph.model import ValuePlan
from fxmorph.observe import observe
from fxmorph.torchapi.dispatch import TorchDispatchMode, mutated_arguments, schema_of, tensors_of, tree_leaves
from fxmorph.values import INTEGERS, Grid, Limits, Range

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


#: What may be done with integers at the limits of their dtype beside elementwise operators: nothing of it takes
#: them as places or sizes.
HARMLESS = frozenset({
    "_to_copy", "amax", "amin", "argmax", "argmin", "as_strided", "cat", "clone", "constant_pad_nd", "copy", "copy_",
    "cummax", "cummin", "cumsum", "detach", "diagonal", "expand", "flip", "max", "min", "mm", "permute", "prod", "roll",
    "select", "slice", "sort", "split", "split_with_sizes", "squeeze", "stack", "sum", "t", "topk", "transpose", "tril",
    "triu", "unbind", "unsqueeze", "unfold", "view", "_unsafe_view", "_reshape_alias", "alias", "lift_fresh",
    "masked_fill", "masked_fill_", "any", "all",
})  # fmt: skip
#: Elementwise, and yet: the machine traps on what they are undefined for, or C++ leaves it open.
PARTIAL = frozenset({
    "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "__ilshift__", "__irshift__", "fmod",
    "floor_divide", "gcd", "lcm", "pow", "remainder",
})  # fmt: skip


class NotHarmless(Exception):
    """Integers at their limits reach an operator that takes integers as something else than numbers."""


class IntegerWatch(TorchDispatchMode):
    """Stops before an operator takes what ``changed`` reaches as a place, size, divisor, exponent or number of bits.

    The operator is then in ``stopped_at``.  Truth values do not count: what they choose is in range.
    """

    def __init__(self, changed: list[torch.Tensor]) -> None:
        super().__init__()
        self.stopped_at = ""
        self._reached = {storage_key(t): t for t in changed}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = schema_of(func).name.split("::")[1]
        reached = any(t.dtype != torch.bool and storage_key(t) in self._reached for t in tensors_of((args, kwargs)))
        if reached and ((torch.Tag.pointwise not in func.tags and name not in HARMLESS) or _partial(name, kwargs)):
            self.stopped_at = name
            raise NotHarmless(name)
        out = func(*args, **kwargs)
        if reached:
            written = [args[i] for i, _ in mutated_arguments(func) if i < len(args)]
            made = [t for t in tensors_of([out, written]) if t.dtype != torch.bool]
            self._reached.update((storage_key(t), t) for t in made)
        return out


def _partial(name: str, kwargs: dict[str, Any]) -> bool:
    return name.removesuffix("_") in PARTIAL or kwargs.get("rounding_mode") is not None


def _at_limits(t: torch.Tensor) -> bool:
    if t.dtype not in INTEGERS or not t.numel():
        return False
    info = torch.iinfo(t.dtype)
    return bool((t >= info.max - 1).any()) or bool(info.min < 0 and (t <= info.min + 1).any())


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


def _integers_too(make: Make, no_grad: bool) -> Limits:
    """All tensors, where eager takes integers at their limits and only as numbers; else floating-point ones alone."""
    made = make(Limits.ALL)
    watch = IntegerWatch([t for t in tensors_of([made.args, *made.state.values()]) if _at_limits(t)])
    if observe(made, lambda f: f, no_grad=no_grad, mode=watch).raised or watch.stopped_at:
        note(f"values: integers stay: {watch.stopped_at or 'eager raises'}")
        return Limits.FLOATS
    return Limits.ALL


def _accepted(make: Make, no_grad: bool) -> int | None:
    """The only step, where eager does not raise on it: few operators take negative indices."""
    return None if observe(make(0), lambda f: f, no_grad=no_grad).raised else 0


#: Plans whose steps are chosen, and how.
CHOOSE: dict[ValuePlan, Callable[[Make, bool], int | None]] = {
    ValuePlan.EXACT: _exact_grid,
    ValuePlan.NORMAL: _normal_range,
    ValuePlan.LIMITS: _integers_too,
    ValuePlan.NEGATIVE: _accepted,
}
