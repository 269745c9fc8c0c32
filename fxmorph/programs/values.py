"""How the values of an input set are chosen under each plan.

Some plans have several *steps*, sets of values that become milder or stricter; which of them a
program is judged on is found by running it (``fxmorph/judge/steps.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch

from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import FLOATING, NotApplicable, flat_storage
from fxmorph.torchapi.dispatch import tensors_of
from fxmorph.torchapi.storages import storage_key

#: Plans that leave values as the program's own ``make_inputs`` gives them.
OWN_VALUES = (
    ValuePlan.SEED, ValuePlan.RESEED, ValuePlan.LAYOUT, ValuePlan.AGAIN, ValuePlan.THREADS, ValuePlan.RANDOM,
    ValuePlan.STRICT,
)  # fmt: skip


INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Grid(IntEnum):
    """The steps of plan ``exact``: what all values are multiples of, and how large they are."""

    INTEGERS = 0  #: -4 to 4; all distinct where a tensor is small
    QUARTERS = 1  #: the same, divided by 4
    SIGNS = 2  #: -1, 0, 1


class Range(IntEnum):
    """The steps of plan ``normal``: what the seed's own values become."""

    OWN = 0  #: themselves
    SMALLER = 1  #: an 8th: powers, exponentials and sums overflow later
    POSITIVE = 2  #: absolute, and at least an 8th: logarithms, roots, divisors
    SMALL = 3  #: a 64th
    INSIDE = 4  #: between an 8th and 7/8: what is defined in (0, 1) alone


class Limits(IntEnum):
    """The steps of plan ``limits``: which tensors get values at the limits of their dtype."""

    ALL = 0
    FLOATS = 1  #: where integers are indices, sizes, divisors or exponents


@dataclass(frozen=True)
class Found:
    """Values that a search found for plan ``normal``: of each of the ``memories``, all of it, or None: as it was."""

    contents: tuple[torch.Tensor | None, ...]


#: Where values of a plan come from: one of its steps, or what was found.
Step = int | Found


def memories(values: Sequence[Any]) -> list[torch.Tensor]:
    """The first tensor, detached, on each storage under nested values, in order; none of empty tensors."""
    first: dict[int, torch.Tensor] = {}
    for t in tensors_of(list(values)):
        if t.numel():
            first.setdefault(storage_key(t), t.detach())
    return list(first.values())


def mask_like(t: torch.Tensor) -> bool:
    """Whether the values are all 0 or 1 with both present, as masks are."""
    if t.is_complex() or t.numel() < 2:
        return False
    if t.dtype == torch.bool:
        return True
    return bool(((t == 0) | (t == 1)).all() and (t == 0).any() and (t == 1).any())


def apply_plan(plan: ValuePlan, values: Sequence[Any], seed: int, step: Step = 0) -> None:
    """Overwrite the values of tensors in place according to a step of the plan, or as found, deterministically.

    Whole storages are written, so that inputs that share memory stay consistent.  Integer
    tensors that are not masks keep their values (they may be indices) but under ``negative`` and ``limits``.
    Raises :class:`NotApplicable` when the plan changes nothing here.
    """
    if plan in OWN_VALUES:
        return
    if isinstance(step, Found):
        for t, content in zip(memories(values), step.contents, strict=True):
            if content is not None:
                flat_storage(t).copy_(content)
        return
    generator = torch.Generator(device="cpu").manual_seed(seed)
    changed = False
    with torch.no_grad():
        for t in memories(values):
            changed |= _overwrite(plan, t, generator, step)
    if not changed:
        raise NotApplicable(str(plan))


def _overwrite(plan: ValuePlan, t: torch.Tensor, g: torch.Generator, step: int) -> bool:
    flat = flat_storage(t)
    floating = t.dtype in FLOATING
    masked = mask_like(t)
    if plan is ValuePlan.EXACT and floating:
        flat.copy_(_exact(flat, t, masked, g, Grid(step)))
        return True
    if plan is ValuePlan.NORMAL and floating:
        if masked:
            return step is Range.OWN
        flat.copy_(_into(flat, Range(step)))
        return True
    if plan is ValuePlan.MASK and masked and t.ndim:
        new = _mask(flat, t.dtype, g)
        flat.copy_(new)
        if t.dtype == torch.bool and t.ndim > 1:
            # A fully masked row is where patterns that rewrite softmax disagree with eager.
            t.reshape(-1, t.shape[-1])[0].fill_(False) if t.is_contiguous() else t[..., 0, :].fill_(False)
        return True
    if plan is ValuePlan.NEAR and floating and not masked:
        flat.copy_(_near(flat, g))
        return True
    if plan is ValuePlan.NEGATIVE and t.dtype in (torch.int32, torch.int64) and not masked:
        return _from_the_end(t, g)
    if plan is ValuePlan.LIMITS and floating and not masked:
        info = torch.finfo(t.dtype)
        large = info.max**0.125
        limits = [0.0, 1.0, info.tiny, info.tiny / 4, large]
        limits = limits if bool(flat.ge(0).all()) else [*limits, -0.0, -1.0, -info.tiny, -info.tiny / 4, -large]
        flat.copy_(_sprinkled(flat, limits, g))
        return True
    if plan is ValuePlan.LIMITS and step == Limits.ALL and t.dtype in INTEGERS and not masked:
        whole = torch.iinfo(t.dtype)
        flat.copy_(_sprinkled(flat, [whole.min, whole.min + 1, 0, 1, whole.max - 1, whole.max], g))
        return True
    if plan is ValuePlan.SPECIAL and floating:
        info = torch.finfo(t.dtype)
        special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, info.max, info.tiny, info.tiny / 4]
        flat.copy_(_sprinkled(flat, special, g))
        return True
    return False


def _sprinkled(flat: torch.Tensor, special: Sequence[float], g: torch.Generator) -> torch.Tensor:
    """The values with about three of ten replaced by special ones."""
    exact = torch.float64 if flat.is_floating_point() else flat.dtype
    table = torch.tensor(special, dtype=exact, device="cpu").to(flat.dtype)
    picks = torch.randint(len(special), (flat.numel(),), generator=g, device="cpu")
    keep = torch.rand(flat.numel(), generator=g, device="cpu") < 0.7
    return torch.where(keep.to(flat.device), flat, table[picks].to(flat.device))


def _from_the_end(t: torch.Tensor, g: torch.Generator) -> bool:
    """Of indices up to m half become i - (m + 1), which is one wherever i is and negative ones are."""
    if bool((t < 0).any()) or t.device.type != "cpu" or t.numel() * t.element_size() != t.untyped_storage().nbytes():
        return False  # an index that is out of range ends a GPU's context
    half = torch.rand(t.shape, generator=g, device="cpu") < 0.5
    t.copy_(torch.where(half, t - (t.max() + 1), t))
    return bool(half.any())


def _near(flat: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    """A quarter of the values, each several times: as it is, and as the next larger and smaller float.

    Zeros stay zeros.
    """
    n = flat.numel()
    few = torch.randint(n, (n // 4 + 1,), generator=g, device="cpu")
    drawn = flat[few[torch.randint(few.numel(), (n,), generator=g, device="cpu")].to(flat.device)]
    side = torch.randint(-1, 2, (n,), generator=g, device="cpu").to(flat.device)
    towards = torch.where(side > 0, torch.full_like(drawn, math.inf), torch.full_like(drawn, -math.inf))
    moved = torch.nextafter(drawn, towards)
    return torch.where((side == 0) | (drawn == 0) | ~torch.isfinite(moved), drawn, moved)


def _exact(flat: torch.Tensor, t: torch.Tensor, masked: bool, g: torch.Generator, grid: Grid) -> torch.Tensor:
    """Values of the grid; the sign domain of the seed is kept."""
    n = flat.numel()
    if masked:
        return torch.randint(0, 2, (n,), generator=g, device="cpu").to(flat.dtype)
    low = t.min()
    if n <= 64 and grid is not Grid.SIGNS:
        values = torch.randperm(n, generator=g, device="cpu") - n // 2
        values = values - values.min() if low >= 0 else values
    else:
        most = 1 if grid is Grid.SIGNS else 4
        values = torch.randint(0 if low >= 0 else -most, most + 1, (n,), generator=g, device="cpu")
    if low > 0:
        values = values.clamp(min=1)
    return values.to(flat.dtype) / (4 if grid is Grid.QUARTERS else 1)


def _into(flat: torch.Tensor, step: Range) -> torch.Tensor:
    """The values brought into a range; what masks hold (Inf, and the least numbers) stays."""
    ways = {
        Range.OWN: lambda x: x,
        Range.SMALLER: lambda x: x * 0.125,
        Range.POSITIVE: lambda x: x.abs().clamp(min=0.125),
        Range.SMALL: lambda x: x * 2.0**-6,
        Range.INSIDE: lambda x: 0.125 + 0.75 * x.abs() / (1 + x.abs()),
    }
    return torch.where(held(flat), flat, ways[step](flat))


def held(flat: torch.Tensor) -> torch.Tensor:
    """Where there is what masks hold: what is not finite, and the least numbers."""
    return ~torch.isfinite(flat) | (flat < torch.finfo(flat.dtype).min / 2)


def _mask(flat: torch.Tensor, dtype: torch.dtype, g: torch.Generator) -> torch.Tensor:
    n = flat.numel()
    if dtype == torch.bool:
        return torch.randint(0, 2, (n,), generator=g, device="cpu").bool()
    table = torch.tensor([0, 1, 2, 3] if dtype == torch.uint8 else [0, 1, 2, -1], device="cpu")
    return table[torch.randint(4, (n,), generator=g, device="cpu")].to(dtype)
