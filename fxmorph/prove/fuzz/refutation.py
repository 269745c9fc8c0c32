"""Arguments on which a proof is false, looked for widely in eager."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

import torch

from fxmorph.model import Level
from fxmorph.programs.bits import same_bits, unequal
from fxmorph.prove.fuzz.moved_roundings import TOWARDS, RoundingsMoved
from fxmorph.prove.fuzz.mutants import Mutant
from fxmorph.prove.fuzz.wide_draws import numbers_of, wide_arguments, wide_values
from fxmorph.prove.rule_level import RuleProof
from fxmorph.rewriting.instances import Instance, over_memory
from fxmorph.rewriting.preconditions import PRECONDITIONS, meet
from fxmorph.rewriting.samples import too_large
from fxmorph.rewriting.sides import Sides, both
from fxmorph.torchapi.storages import storage_key

#: Draws of arguments, where the time allows as many.
_TURNS = 1000
#: Over the reals sides may differ by so much of what is largest, and by so many times what rounding can make.
_GAP, _ROUNDINGS = 1e-9, 1e3
#: The same where constants stand for what they were rounded from in fewer bits, and where no rounding is as large.
_COARSE, _BLATANT = 1e-6, 1e-3
#: Where roundings move a result by such a part of a difference, they may make all of it.
_PART = 0.01
#: The same of a rule that casts to dtypes of few bits, in these words.
_BY_CAST = 0.05
_NARROW = ("half", "float16", "float32", ".float(", "to_copy")
#: Values that float64 computes with exactly: multiples of this.
_STEP = 1 / 64
_NAMES = frozenset(name for names in PRECONDITIONS for name in names)


@dataclass(frozen=True)
class Witness:
    """Arguments for which a proof does not hold."""

    arguments: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.arguments}: before gives {self.before}, after gives {self.after}"


def refutation(mutant: Mutant, dtype: str, proof: RuleProof, seconds: float, rng: random.Random) -> Witness | None:
    """What shows in eager that a rule does not hold as ``proof`` says; None where nothing is found in the time."""
    until = time.process_time() + seconds
    told = numbers_of(mutant)
    narrow = any(word in mutant.text for word in _NARROW)
    for turn in range(_TURNS):
        if time.process_time() > until:
            return None
        instance = wide_arguments(mutant.rule, dtype, turn, rng)
        if instance is None or too_large(instance):
            continue
        for values in wide_values(instance, told, rng):
            found = contradicted(instance, values, proof, narrow, rng)
            if found is not None:
                return found
    return None


def contradicted(
    instance: Instance, values: dict[str, torch.Tensor], proof: RuleProof, narrow: bool, rng: random.Random
) -> Witness | None:
    """What these values show against the proof; ``narrow``: the rule casts to dtypes of few bits."""
    real = proof.level in (Level.EXACT_REAL, Level.TESTED, Level.UNKNOWN)
    if real and any(t.is_floating_point() for t in values.values()):
        return _over_reals(instance, values, proof, narrow, rng)
    if "no-overflow" in proof.assumptions and any(_large(t) for t in values.values()):
        return None
    if "f2i_in_range" in proof.assumptions and any(_large(t, 100) for t in values.values()):
        return None
    needed = _NAMES & set(proof.assumptions)
    if needed:
        values = over_memory(values, lambda t: _meeting(needed, t))
    sides = _run(instance, values)
    if sides is None:
        return None
    pairs = [(sides.before, sides.after), *((sides.left[n], sides.right[n]) for n in sides.left)]
    zero_counts = proof.level in (Level.INDEX_EXACT, Level.BIT_EXACT) or (
        proof.level is Level.UNDER_PRECONDITION and "mod_zero_sign" not in proof.assumptions
    )
    free = any("zero-sign-free-choice" in a or "max-tie-free-choice" in a for a in proof.assumptions)
    for a, b in pairs:
        if a.shape != b.shape:
            return _witness(values, a, b)
        if a.dtype == b.dtype and not same_bits(a, b) and ((zero_counts and not free) or not _equal(a, b)):
            return _witness(values, a, b)
        if a.dtype != b.dtype and bool((unequal(a, b) & ~(_nan(a) & _nan(b))).any()):
            return _witness(values, a, b)
    return None


def _run(instance: Instance, values: dict[str, torch.Tensor]) -> Sides | None:
    """Both sides; None where one does not run, of which nothing is said here, or where what they do has no meaning."""
    try:
        sides = both(instance, values)
    except Exception:
        return None
    return None if _undefined(values, sides) else sides


def _undefined(values: dict[str, torch.Tensor], sides: Sides) -> bool:
    """Whether an argument was written whose elements lie over each other, or partly over another argument."""
    for name, t in values.items():
        if all(same_bits(t, held[name]) for held in (sides.left, sides.right)):
            continue
        if any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True)):
            return True
        if any(storage_key(o) == storage_key(t) and _place(o) != _place(t) for o in values.values()):
            return True
    return False


def _place(t: torch.Tensor) -> tuple[object, ...]:
    return t.storage_offset(), t.shape, t.stride()


def _meeting(names: set[str] | frozenset[str], t: torch.Tensor) -> torch.Tensor:
    out = t.clone()
    meet(names, out)
    return out


def _large(t: torch.Tensor, limit: float = 7) -> bool:
    return bool(t.numel()) and t.dtype != torch.bool and not bool((t.abs() <= limit).all())


def _nan(t: torch.Tensor) -> torch.Tensor:
    return t.isnan() if t.is_floating_point() else torch.zeros_like(t, dtype=torch.bool)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal numbers, NaN included, zeros of either sign."""
    return bool(((a == b) | (_nan(a) & _nan(b))).all())


def _over_reals(
    instance: Instance, values: dict[str, torch.Tensor], proof: RuleProof, narrow: bool, rng: random.Random
) -> Witness | None:
    """In float64, on finite values of moderate size, where no more than rounding can tell the sides apart."""
    floats = [t for t in values.values() if t.is_floating_point()]
    if any(t.numel() and not bool((t.abs() <= 400).all()) for t in floats):
        return None
    if "f2i_in_range" in proof.assumptions and any(_large(t, 100) for t in floats):
        return None
    needed = _NAMES & set(proof.assumptions)
    wide = over_memory(values, lambda t: _meeting(needed, t.double() if t.is_floating_point() else t))
    sides = _run(instance, wide)
    if sides is None or not sides.before.numel():
        return None
    a, b = sides.before, sides.after
    if a.shape != b.shape:
        return _witness(wide, a, b)
    a, b = a.double(), b.double()
    defined = a.isfinite() & b.isfinite()
    largest = max([float(t.abs().max()) for t in wide.values() if t.numel() and t.dtype != torch.bool], default=1.0)
    scale = max(largest, float(a[defined].abs().max()) if bool(defined.any()) else 0.0, 1.0)
    gap = (a - b).abs()
    rounded = "constants-rounded" in proof.assumptions and proof.dtype != "float64"
    close = _BY_CAST if narrow else _COARSE if rounded else _GAP
    simple = all(bool((t / _STEP == (t / _STEP).round()).all()) for t in wide.values() if t.is_floating_point())
    blatant = defined & (gap > max(_BLATANT, close) * scale)
    if simple and bool(blatant.any()) and _as_in_float32(instance, wide, sides, scale):
        for towards in TOWARDS:  # what is one of the bounds of a function only by rounding decides nothing
            with RoundingsMoved(rng, towards, certain=True):
                moved = _run(instance, wide)
            if moved is not None and moved.before.shape == moved.after.shape == gap.shape:
                apart = (moved.before.double() - a).abs() + (moved.after.double() - b).abs()
                blatant &= ~(apart > (gap * _PART).clamp(max=_BLATANT * scale))
        if bool(blatant.any()):
            return _witness(wide, a, b, blatant)
    allowed = torch.full_like(a, close * scale)
    for towards in TOWARDS:
        with RoundingsMoved(rng, towards):
            near = _run(instance, over_memory(wide, lambda t: _perturbed(t, rng)))
        if near is None or near.before.shape != a.shape:
            return None
        for side, other in ((a, near.before), (b, near.after)):
            allowed = allowed + _ROUNDINGS * (side - other.double()).abs().nan_to_num(math.inf)
    beyond = defined & (gap > allowed)
    return _witness(wide, a, b, beyond) if bool(beyond.any()) else None


def _as_in_float32(instance: Instance, wide: dict[str, torch.Tensor], sides: Sides, scale: float) -> bool:
    """Whether float32 gives what float64 gives: then no rounding decides, and ties are what they seem."""
    near = _run(instance, over_memory(wide, lambda t: t.float() if t.is_floating_point() else t.clone()))
    if near is None:
        return False
    pairs = ((sides.before, near.before), (sides.after, near.after))
    return all(bool(((a.double() - b.double()).abs().nan_to_num(0.0) <= 1e-4 * scale).all()) for a, b in pairs)


def _perturbed(t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Each number of floating point a few units of rounding away from what it was, of its own and of the largest."""
    if not t.is_floating_point() or not t.numel():
        return t.clone()
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    own, largest = (2.0**-50 * torch.randint(-2, 3, t.shape, generator=generator) for _ in range(2))
    return t * (1 + own) + largest * t.abs().max()


def _witness(
    values: dict[str, torch.Tensor], a: torch.Tensor, b: torch.Tensor, where: torch.Tensor | None = None
) -> Witness:
    """Named by the first element that differs, of those ``where`` a difference counts."""
    texts = [str(tuple(t.shape)) for t in (a, b)]
    at: tuple[int, ...] | None = None
    if a.shape == b.shape and a.numel():
        differs = unequal(a, b) & ~(_nan(a) & _nan(b)) if where is None else where
        found = differs.nonzero()
        at = tuple(found[0].tolist()) if len(found) else None
        texts = [f"{t[at].item()!r} at {list(at)}" for t in (a, b)] if at is not None else ["zero", "another zero"]
    said = []
    for name, t in values.items():
        lies = f"{tuple(t.shape)} strides {t.stride()} offset {t.storage_offset()}"
        held = t.tolist() if t.numel() <= 8 else (t[at].item() if at is not None and t.shape == a.shape else "...")
        said.append(f"{name} = {held} {lies} {str(t.dtype).removeprefix('torch.')}")
    return Witness("; ".join(said), *texts)
