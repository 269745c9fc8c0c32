"""Obligations over few small values decided by trying all of them in eager.

The strongest evidence there is: the kernels themselves, no model of them.  Each side is computed twice,
from contiguous operands and from operands with gaps, because vector loops and scalar loops may differ;
equal bits are claimed only where either loop of one side agrees with either loop of the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fxmorph.model import Level
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.eager_scalars import bits_differ, evaluate
from fxmorph.prove.smt.scalars import Expression, Obligation
from fxmorph.rewriting.preconditions import PRECONDITIONS, met

#: Values of the dtypes that can be tried out.
COUNTS = {torch.bool: 2, torch.int8: 2**8, torch.uint8: 2**8, torch.int16: 2**16, torch.float16: 2**16,
          torch.bfloat16: 2**16}  # fmt: skip
#: Combinations that are tried at most, and at a time.
MAX_COMBINATIONS, CHUNK = 2**24, 2**19
#: Chunks are this much longer than a power of two, so that vector loops have tails.
_TAIL = 5


@dataclass(frozen=True)
class Exhausted:
    """What all ``combinations`` of values of the variables show.

    ``counterexample``: values for which the two sides differ in bits; with ``level`` ``UNKNOWN`` they
    differ beyond the sign of zero under every precondition, which refutes any claim of bits.
    ``conclusive``: all variables are inputs, so that the counterexample can be reached.
    """

    level: Level
    combinations: int
    assumptions: tuple[str, ...] = ()
    counterexample: tuple[float | int | bool, ...] | None = None
    conclusive: bool = True
    reason: str = ""
    method: str = "EXHAUSTIVE"


def combinations(obligation: Obligation) -> int | None:
    """How many values the variables have together; None where one has too many kinds of them."""
    if not obligation.variables or any(d not in COUNTS for d in obligation.variables):
        return None
    return math.prod(COUNTS[d] for d in obligation.variables)


def values_of(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a dtype of at most 16 bits, all NaNs being the canonical one."""
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if dtype == torch.uint8:
        return torch.arange(256).to(dtype)
    if dtype == torch.int8:
        return torch.arange(-128, 128).to(dtype)
    every = torch.arange(-(2**15), 2**15).to(torch.int16)
    if dtype == torch.int16:
        return every
    floats = every.view(dtype)
    return torch.where(floats.isnan(), torch.full_like(floats, math.nan), floats)


def _chunks(obligation: Obligation, total: int) -> Iterator[list[torch.Tensor]]:
    tables = [values_of(d) for d in obligation.variables]
    for start in range(0, total, CHUNK):
        numbers = torch.arange(start, min(start + CHUNK, total) + _TAIL) % total
        columns = []
        for table in reversed(tables):
            columns.append(table[numbers % len(table)])
            numbers = numbers // len(table)
        yield columns[::-1]


def exhaust(obligation: Obligation, limit: int = MAX_COMBINATIONS, device: str = "cpu") -> Exhausted:
    """The strongest level that holds of all values, computed on ``device``.

    Raises :class:`NotModelled` where there are more than ``limit`` combinations or eager cannot compute a side.
    """
    total = combinations(obligation)
    if total is None or total > limit:
        raise NotModelled("too many values to try")
    if obligation.left.dtype != obligation.right.dtype:
        raise NotModelled("sides of different dtypes")
    seen = _Seen(obligation)
    for columns in _chunks(obligation, total):
        seen.add([c.to(device) for c in columns])
    return seen.result(total)


class _Seen:
    """What was found so far: which claims are still without a counterexample."""

    def __init__(self, obligation: Obligation) -> None:
        self.obligation = obligation
        #: Claims that hold: (preconditions, whether modulo the sign of zero).
        self.open = {(p, z) for p in ((), *PRECONDITIONS) for z in (False, True)}
        self.counterexample: tuple[float | int | bool, ...] | None = None
        self.lanes = self.zero_lanes = self.raises = self.lopsided = False

    def add(self, columns: list[torch.Tensor]) -> None:
        left, left_raises = _sides(self.obligation.left, columns)
        right, right_raises = _sides(self.obligation.right, columns)
        excused = left_raises | right_raises
        self.raises |= bool(excused.any())
        self.lopsided |= bool((left_raises != right_raises).any())
        for modulo in (False, True):
            alike = [bits_differ(a, b, modulo) for a, b in zip(left, right, strict=True)]
            differ = (alike[0] | alike[1]) & ~excused
            if not modulo and self.counterexample is None and bool(differ.any()):
                first = int(differ.nonzero()[0])
                self.counterexample = tuple(c[first].item() for c in columns)
            across = bits_differ(left[0], right[1], modulo) | bits_differ(left[1], right[0], modulo)
            across = across & ~excused & ~differ
            if bool(across.any()):
                self.lanes |= modulo
                self.zero_lanes |= not modulo
            for preconditions, up_to in list(self.open):
                if up_to == modulo and bool((differ & met(preconditions, columns)).any()):
                    self.open.discard((preconditions, up_to))

    def result(self, total: int) -> Exhausted:
        conclusive = all(self.obligation.inputs)
        assumptions = {"int_denom!=0"} if self.raises else set()
        if any(d.is_floating_point for d in self.obligation.dtypes):
            assumptions.add("nan-payload-ignored")
        if self.lanes:
            # Rounding that depends on the place in memory: whether sides agree depends on it too.
            reason = "eager's own value depends on the lane"
            return Exhausted(Level.UNKNOWN, total, (), self.counterexample, conclusive, reason)

        def shown(level: Level, *more: str) -> Exhausted:
            if self.lopsided and level != Level.UNDER_PRECONDITION:
                more = (*more, *(("mod_zero_sign",) if level == Level.BIT_EXACT_MOD_ZERO_SIGN else ()))
                level = Level.UNDER_PRECONDITION
            names = tuple(sorted({*assumptions, *more}))
            return Exhausted(level, total, names, self.counterexample, conclusive)

        tie = ("max-tie-free-choice",) if self.zero_lanes else ()
        if ((), False) in self.open and not self.zero_lanes:
            return shown(Level.BIT_EXACT)
        if ((), True) in self.open:
            return shown(Level.BIT_EXACT_MOD_ZERO_SIGN, *tie)
        for preconditions in PRECONDITIONS:
            if (preconditions, False) in self.open and not self.zero_lanes:
                return shown(Level.UNDER_PRECONDITION, *preconditions)
            if (preconditions, True) in self.open:
                return shown(Level.UNDER_PRECONDITION, *preconditions, "mod_zero_sign", *tie)
        return Exhausted(Level.UNKNOWN, total, (), self.counterexample, conclusive, "differs under every precondition")


def _sides(expression: Expression, columns: list[torch.Tensor]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """A side by vector loops and by scalar loops, and where it would raise."""
    masks: list[torch.Tensor] = []
    try:
        both = [evaluate(expression, columns, scattered=s, excused=masks) for s in (False, True)]
    except (RuntimeError, TypeError) as error:
        raise NotModelled(f"eager: {str(error).splitlines()[0]}") from None
    raises = torch.zeros_like(columns[0], dtype=torch.bool)
    for mask in masks:
        raises |= mask
    return both, raises
