"""What the reference run hands on: values with their shadows, and whether two programs' shadows agree."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fxmorph.judge.reference.gates import LOCAL
from fxmorph.judge.reference.precision import is_wide
from fxmorph.programs.bits import unequal
from fxmorph.programs.inputs import is_float_dtype


@dataclass(frozen=True)
class Shadows:
    """A native value, its shadow in each lane, and which of the :data:`LOCAL` gates lie before it."""

    native: torch.Tensor
    lanes: dict[str, torch.Tensor]
    closed: frozenset[str] = frozenset(LOCAL)


@dataclass(frozen=True)
class Taken:
    """A floating-point number that Python took from a tensor of ``dtype``, and what it is in each lane (0-d).

    ``hangs``: another was taken before, which rounding reaches too, so that the lanes do not tell all.
    """

    native: float
    dtype: torch.dtype
    lanes: dict[str, torch.Tensor]
    hangs: bool


#: How far two programs that are equal over the reals may differ in fp64, relative to the largest value.
FP64_TOLERANCE = 1e-7
#: The same of results that are float64 themselves: a constant that was rounded to float32 is another one there.
OWN_TOLERANCE = 1e-11
#: What sums and kernels in fp64 round off, relative to the largest of the usual values, and what is beyond those.
FP64_ROUNDING, HUGE = 1e-13, 1e18


def differ_in_fp64(
    mine: Shadows | None,
    theirs: Shadows | None,
    lane: str = "wide",
    strict: bool = False,
    tolerance: float = FP64_TOLERANCE,
) -> bool | None:
    """Whether two programs that should be equal over the reals are not, on what no tie decides; None: cannot tell.

    ``lane`` ``cast`` has explicit casts round, ``wide`` has nothing round.  Differences are measured against
    the largest value; if ``strict`` each against its own element, but for what fp64 itself rounds, and no wider than
    ``tolerance``.
    """
    if mine is None or theirs is None or not mine.lanes.keys() & theirs.lanes.keys() >= {lane, "tie:+", "tie:-"}:
        return None
    a, b = mine.lanes[lane], theirs.lanes[lane]
    if a.shape != b.shape:
        return True
    if not is_float_dtype(a.dtype) or not is_float_dtype(b.dtype):
        return _differ_in_decisions(mine, theirs, lane)
    firm = torch.isfinite(a) & torch.isfinite(b)
    for side in (mine, theirs):
        for tie in ("tie:+", "tie:-"):
            firm &= (side.lanes[tie] - side.lanes["wide"]).abs() <= FP64_TOLERANCE * side.lanes["wide"].abs()
    if not bool(firm.any()):
        return None
    if not strict:
        scale = float(a[firm].abs().max())
        return float((a - b)[firm].abs().max()) > FP64_TOLERANCE * max(scale, 1e-30)
    return not bool(_same_elements(a, b, firm, tolerance).all())


def same_in_fp64(mine: Shadows, theirs: Shadows, tolerance: float = FP64_TOLERANCE) -> bool:
    """Whether two programs give the same in fp64 for every element, those that ties decide too."""
    a, b = mine.lanes["wide"], theirs.lanes["wide"]
    if a.shape != b.shape:
        return False
    if not is_float_dtype(a.dtype) or not is_float_dtype(b.dtype):
        return not bool(unequal(a, b).any())
    return bool(_same_elements(a, b, torch.isfinite(a), tolerance).all())


def tolerance_of(value: object) -> float:
    """How far two programs may be apart in fp64 in a result of this dtype, relative to it."""
    return OWN_TOLERANCE if is_wide(value) else FP64_TOLERANCE


def loses_float64(value: object, other: object) -> bool:
    """Whether two results are float64 and further apart than what is computed in float64 should be."""
    if not isinstance(value, torch.Tensor) or not isinstance(other, torch.Tensor) or value.shape != other.shape:
        return False
    if {value.dtype, other.dtype} != {torch.float64}:
        return False
    return not bool(_same_elements(value, other, torch.isfinite(value), OWN_TOLERANCE).all())


def _same_elements(a: torch.Tensor, b: torch.Tensor, firm: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Where elements are the same but for what fp64 itself rounds, next to those that are ``firm``."""
    near = (a - b).abs() <= tolerance * a.abs() + rounded_in_fp64(a, firm)
    return near | (a == b) | (a.isnan() & b.isnan())


def rounded_in_fp64(a: torch.Tensor, firm: torch.Tensor) -> float:
    """What fp64 itself rounds off of any element, next to those that are ``firm``."""
    # Masks such as the least float32 say nothing of how large the rest is.
    usual = a[firm & (a.abs() < HUGE)].abs()
    return FP64_ROUNDING * (float(usual.max()) if usual.numel() else 0.0)


def _differ_in_decisions(mine: Shadows, theirs: Shadows, lane: str) -> bool | None:
    """The same of truth values and integers: a difference has no size, and those of unsigned ones would wrap."""
    firm = torch.ones_like(mine.lanes[lane], dtype=torch.bool)
    for side in (mine, theirs):
        for tie in ("tie:+", "tie:-"):
            firm &= ~unequal(side.lanes[tie], side.lanes["wide"])
    return bool(unequal(mine.lanes[lane], theirs.lanes[lane])[firm].any()) if bool(firm.any()) else None
