"""The kernels of a compiled program executed in fp64, against the fp64 reference.

Neither rounds, so that they are equal where everything up to the scheduler is right: what is left to differ are
constants that Inductor rounds to float32.  The envelope of a 16-bit result lets through what is ten thousand times as
large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxmorph.judge.numeric import CLEAN, Comparison, moved_by_ties, place_of, spread, values_at
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.precision import UNIT, is_wide
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.reference.shadows import FP64_TOLERANCE, Shadows, rounded_in_fp64
from fxmorph.model import Status, VerdictCode
from fxmorph.programs.bits import unequal
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import Observation
from fxmorph.torchapi.kernels_in_fp64 import run_in_fp64_too

#: What is allowed, as a multiple of what constants in float32 explain; what right programs need of it
#: ``bench/fp64_execution.py`` prints.
FAR = 4.0
#: Runs the compiled program: told how to prepare its inputs, and what to keep of each tensor that is seen.
Run = Callable[[Callable[[Invocation], None], Callable[[torch.Tensor], Any]], Observation]


def executed_in_fp64(run: Run) -> dict[str, torch.Tensor]:
    """Of each slot what the kernels of a compiled program give in fp64; those left out that other code has a part in.

    ``run`` calls a program that is compiled already.  Nothing is said where it raises, or consists of several parts.
    """
    reference = ReferenceRun(wide_alone=True)
    with run_in_fp64_too(reference, reference.lanes.wide.shadow) as inside:

        def prepare(made: Invocation) -> None:
            for t in made.tensors:
                reference.lanes.start_again(t)
            inside.hold(made.tensors)

        def keep(t: torch.Tensor) -> Shadows:
            return reference.keep(t) if inside.holds(t) else Shadows(t, {})

        seen = run(prepare, keep)
    if seen.raised or inside.unseen or inside.programs != 1:
        return {}
    shadows = {name: slot.value for name, slot in seen.slots().items() if isinstance(slot.value, Shadows)}
    return {name: found.lanes["wide"] for name, found in shadows.items() if "wide" in found.lanes}


def compare_in_fp64(executed: torch.Tensor, reference: Shadows | None, gates: Gates) -> Comparison:
    """Judge what the kernels of a program give in fp64 for a slot by the reference run."""
    if reference is None or "wide" not in reference.lanes or is_wide(reference.native):
        return CLEAN
    wide = reference.lanes["wide"]
    unseen = gates.bit_cast or gates.random_values or gates.blind
    if unseen or (executed.shape, executed.dtype) != (wide.shape, wide.dtype):
        return CLEAN
    off = part_of_allowed(executed, reference) > 1
    if not bool(off.any()):
        return CLEAN
    text = f"kernels in fp64, {place_of(off)}: reference {values_at(wide, off)}; executed {values_at(executed, off)}"
    return Comparison(Status.FINDING, text, code=VerdictCode.IN_FP64)


def part_of_allowed(executed: torch.Tensor, reference: Shadows) -> torch.Tensor:
    """How far kernels in fp64 are off the reference, in parts of what is allowed: float64, of the value's shape.

    Each element is allowed :data:`FAR` times :data:`FP64_TOLERANCE` of itself and what roundings of float32 on the way
    to it move it by.  Where any lane decides otherwise than the others, or is no number, nothing is said: 0.
    """
    lanes, wide = reference.lanes, reference.lanes["wide"]
    if wide.dtype.is_complex:
        parts = {name: torch.view_as_real(lane.resolve_conj()) for name, lane in lanes.items()}
        native = torch.view_as_real(reference.native.resolve_conj())
        return part_of_allowed(torch.view_as_real(executed.resolve_conj()), Shadows(native, parts)).amax(-1)
    firm = torch.ones_like(wide, dtype=torch.bool)
    if not wide.dtype.is_floating_point:
        for lane in lanes.values():
            firm &= ~unequal(lane, wide)
        return torch.where(firm & unequal(executed, wide), torch.inf, 0.0).double()
    for lane in lanes.values():
        firm &= torch.isfinite(lane)
    moved = spread(lanes, "wide", wide) * (UNIT[torch.float32] / UNIT[reference.native.dtype])
    floor = rounded_in_fp64(wide, torch.isfinite(wide)) + torch.finfo(torch.float64).tiny
    allowed = FAR * (FP64_TOLERANCE * wide.abs() + moved + moved_by_ties(lanes, wide)) + floor
    off = (executed - wide).abs()
    return torch.where(firm, torch.where(off.isnan(), torch.inf, off) / allowed, 0.0)
