"""Arguments on which a proof is false, looked for widely in eager and by other draws than the prover's own.

Sizes to 3,000, any strides and offsets, tensors in one memory, every value of 16 bits, integers to 300 and at the
ends of their range, and the numbers in the rule's own text with what they make of each other and their neighbours.
"""

from __future__ import annotations

import ast
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from fxmorph.model import Level
from fxmorph.programs.bits import neighbours, same_bits, unequal
from fxmorph.programs.inputs import spec_of, storage_key
from fxmorph.prove.fuzz.mutants import Mutant
from fxmorph.prove.rule_level import RuleProof
from fxmorph.rewriting.instances import Instance, holds, over_memory
from fxmorph.rewriting.preconditions import PRECONDITIONS, meet
from fxmorph.rewriting.samples import sample_arguments, too_large
from fxmorph.rewriting.sides import Sides, both
from fxmorph.rules import Rule

#: Sizes around which code changes its ways.
_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 48, 63, 64, 65, 96, 100, 101, 127,
          128, 129, 200, 255, 256, 257, 300, 511, 512, 513, 1000, 1023, 1025, 2048, 2049, 3000)  # fmt: skip
_SMALL = _SIZES[:12]
#: Draws of arguments, where the time allows as many.
_TURNS = 1000
_INTEGERS = (tuple(range(-3, 4)), tuple(range(-12, 13)), tuple(range(300)), tuple(range(-300, 301)), (0, 1, -1))
#: Over the reals sides may differ by so much of what is largest, and by so many times what rounding can make.
_GAP, _ROUNDINGS = 1e-9, 1e3
#: The same where constants stand for what they were rounded from in fewer bits, and where no rounding is as large.
_COARSE, _BLATANT = 1e-6, 1e-3
#: The same of a rule that casts to dtypes of few bits, in these words.
_BY_CAST = 0.05
_NARROW = ("half", "float16", "float32", ".float(", "to_copy")
#: How often arguments are moved by what rounding may move them, to see what that makes of the result.
_PERTURBED = 3
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
    told = _told_numbers(mutant)
    narrow = any(word in mutant.text for word in _NARROW)
    for turn in range(_TURNS):
        if time.process_time() > until:
            return None
        instance = _arguments(mutant.rule, dtype, turn, rng)
        if instance is None or too_large(instance):
            continue
        for values in _values(instance, told, rng):
            found = _contradicted(instance, values, proof, narrow, rng)
            if found is not None:
                return found
    return None


def _told_numbers(mutant: Mutant) -> list[float]:
    """The numbers that the text of a rule has, with what they make of each other."""
    told = {
        float(node.value)
        for node in ast.walk(ast.parse(mutant.text))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and abs(node.value) < 1e6
    }
    some = sorted(told)[:12]
    made = {f for a in some for b in some for f in (a - b, a + b, a * b, a / b if b else a)}
    out = {sign * v for v in told | made for sign in (1, -1)} | {math.sqrt(v) for v in told if v > 0}
    return sorted(out)[:200]


# -- arguments ---------------------------------------------------------------------


def _arguments(rule: Rule, dtype: str, turn: int, rng: random.Random) -> Instance | None:
    """Arguments of sizes that are small, mixed or large in turn, laid out anyhow."""
    sizes: Sequence[int] = _SMALL if turn % 3 == 0 else _SIZES
    sizes = [rng.choice(sizes)] if turn % 3 == 2 else sizes
    leading = _SMALL if rng.random() < 0.5 else sizes
    sample = sample_arguments(rule, rng, 25, (dtype,), sizes, leading, _INTEGERS[turn % len(_INTEGERS)])
    if sample is None:
        sample = sample_arguments(rule, rng, 60, (dtype,), integers=_INTEGERS[turn % len(_INTEGERS)])
    if sample is None:
        return None
    tensors, scalars = sample
    plain = Instance(rule, tensors, scalars)
    if turn % 4 == 0:
        return plain
    memory: dict[torch.dtype, torch.Tensor] = {}
    made = {}
    for name, t in tensors.items():
        # Every fourth time what has one dtype lies in one memory.
        own = memory.setdefault(t.dtype, _room(t, tensors, rng)) if turn % 4 == 3 else _room(t, {name: t}, rng)
        made[name] = _laid(t, own, rng, dense=turn % 8 in (3, 5))
    if not holds(rule, {n: spec_of(t) for n, t in made.items()}, scalars):
        return plain
    return Instance(rule, made, scalars)


def _room(t: torch.Tensor, tensors: dict[str, torch.Tensor], rng: random.Random) -> torch.Tensor:
    """Memory that has room for gaps, filled with what the tensors hold."""
    most = max(o.numel() for o in tensors.values() if o.dtype == t.dtype)
    values = next(o for o in tensors.values() if o.dtype == t.dtype and o.numel() == most).flatten()
    size = 3 * most + 16
    return values.repeat(size // max(len(values), 1) + 1)[:size].clone() if most else torch.ones(16, dtype=t.dtype)


def _laid(t: torch.Tensor, memory: torch.Tensor, rng: random.Random, dense: bool) -> torch.Tensor:
    """Elements of a memory in the shape of ``t``: any order of dimensions, gaps, dimensions of stride 0, any offset."""
    order = list(range(t.ndim)) if dense else rng.sample(range(t.ndim), t.ndim)
    strides, step = [0] * t.ndim, 1 if dense else rng.choice((1, 1, 2))
    for d in reversed(order):
        expanded = not dense and rng.random() < 0.1
        strides[d] = 0 if expanded else step
        if not expanded:
            step *= max(t.shape[d], 1)
    last = sum((n - 1) * s for n, s in zip(t.shape, strides, strict=True)) if t.numel() else 0
    room = memory.numel() - 1 - last
    if room < 0:
        return t
    return memory.as_strided(t.shape, strides, rng.choice((0, 1, 3, rng.randint(0, room))) if room >= 3 else 0)


def _values(instance: Instance, told: list[float], rng: random.Random) -> Iterator[dict[str, torch.Tensor]]:
    """The arguments with values of every kind in turn."""
    rule = instance.rule
    yield instance.copies()
    for kind in ("told", "bits", "wide", "near", "integers", "special"):

        def fill(t: torch.Tensor, kind: str = kind) -> torch.Tensor:
            new = _filled(t, kind, told, rule.mixed, rng)
            meet(rule.assumes, new)
            return new

        yield over_memory(instance.tensors, fill)


def _filled(t: torch.Tensor, kind: str, told: list[float], mixed: bool, rng: random.Random) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    n = t.numel()
    if t.is_complex() or not n:
        return t.clone()
    if t.dtype == torch.bool:
        return torch.randint(2, (n,), generator=generator).bool()
    if not t.is_floating_point():
        if mixed:
            return t.clone()  # indices: those that were drawn
        limits = torch.iinfo(t.dtype)
        whole = {
            "told": [int(v) for v in told if v == int(v)], "bits": list(range(-300, 300)), "wide": [],
            "near": list(range(-9, 10)), "integers": list(range(-130, 131)), "special": [0, 1, 2, 255, 256, 65536],
        }[kind]  # fmt: skip
        # The least integer divided by -1 ends the process.
        ends = [limits.max, limits.max - 1, limits.min + 1, limits.max // 2, limits.max // 2 + 1]
        whole += ends if kind in ("wide", "special") else []
        whole = [v for v in whole if limits.min < v <= limits.max] or [1]
        return torch.tensor(whole, dtype=t.dtype)[torch.randint(len(whole), (n,), generator=generator)]
    if kind == "bits" and t.dtype.itemsize == 2:
        start = rng.randrange(1 << 16)
        return ((torch.arange(n) * 257 + start) % (1 << 16) - (1 << 15)).to(torch.int16).view(t.dtype)
    if kind in ("bits", "wide"):
        scale = torch.exp2(torch.randint(-30, 31, (n,), generator=generator).double())
        return (torch.randn(n, generator=generator, dtype=torch.float64) * scale).to(t.dtype)
    if kind == "near":
        return (torch.rand(n, generator=generator, dtype=torch.float64) * 16 - 8).to(t.dtype)
    if kind == "integers":
        return torch.randint(-300, 301, (n,), generator=generator).to(t.dtype)
    info = torch.finfo(t.dtype)
    if kind == "special":
        pool = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -1.0, info.max, info.tiny, info.tiny / 2, info.eps, 0.5]
        values = torch.tensor(pool, dtype=torch.float64).to(t.dtype)
    else:
        exact = torch.tensor(told or [1.0], dtype=torch.float64).to(t.dtype)
        values = torch.cat([exact, exact, *neighbours(exact)])
    return values[torch.randint(len(values), (n,), generator=generator)]


# -- what contradicts --------------------------------------------------------------


def _contradicted(
    instance: Instance, values: dict[str, torch.Tensor], proof: RuleProof, narrow: bool, rng: random.Random
) -> Witness | None:
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
    if simple and bool(blatant.any()):
        return _witness(wide, a, b, blatant)
    allowed = torch.full_like(a, close * scale)
    for _ in range(_PERTURBED):
        near = _run(instance, over_memory(wide, lambda t: _perturbed(t, rng)))
        if near is None or near.before.shape != a.shape:
            return None
        for side, moved in ((a, near.before), (b, near.after)):
            allowed = allowed + _ROUNDINGS * (side - moved.double()).abs().nan_to_num(math.inf)
    beyond = defined & (gap > allowed)
    return _witness(wide, a, b, beyond) if bool(beyond.any()) else None


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
