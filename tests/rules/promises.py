"""What a rule promises, checked by running both of its sides in eager and nothing else."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import torch

from fxmorph.model import Level
from fxmorph.programs.bits import same_bits
from fxmorph.programs.inputs import InputSet, spec_of
from fxmorph.programs.memory import overlap
from fxmorph.programs.observe import loss_of, meta_of
from fxmorph.rewriting.instances import holds
from fxmorph.rules import Rule

#: How far two sides that agree over the reals may be apart in fp64, relative to the largest value.
REAL = 1e-7
GRADIENT = {torch.float16: 3e-2, torch.bfloat16: 2e-1, torch.float32: 1e-3, torch.float64: 1e-6}
SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 17)
ODD = (0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, float("inf"), float("-inf"), float("nan"), 1e-45, 3e38, 65504.0, 1e5)
ASSUMED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "finite": lambda t: t.isfinite().all(),
    "no_nan": lambda t: ~t.isnan().any(),
    "nonneg": lambda t: (t >= 0).all(),
    "nonzero": lambda t: (t != 0).all(),
}


class Side:
    """One side of a rule run on fresh copies of the inputs."""

    def __init__(self, function: Callable[..., Any], frozen: InputSet, names: list[str], scalars: dict[str, Any]):
        self.inputs = dict(zip(names, frozen.rebuild(), strict=True))
        given = {**self.inputs, **scalars}
        self.out = function(**{n: given[n] for n in inspect.signature(function).parameters})
        self.value = self.out.detach().clone()
        self.after = {n: t.detach().clone() for n, t in self.inputs.items()}
        self.aliases = {n for n, t in self.inputs.items() if overlap(self.out, t)}

    def gradients(self) -> dict[str, torch.Tensor]:
        """Of the inputs that have one; raises what the backward pass raises."""
        loss = loss_of([self.out], exact=False)
        if loss is not None and loss.requires_grad:
            loss.backward()
        return {n: t.grad for n, t in self.inputs.items() if t.grad is not None}


def broken(rule: Rule, given: dict[str, Any], real: float = REAL) -> str:
    """The promise that the rule breaks on these inputs, or "".  Raises where ``before`` does.

    ``real`` is how far sides may be apart in fp64 that are to agree over the reals.
    """
    tensors = {n: t for n, t in given.items() if n in rule.args}
    scalars = {n: c[0] for n, c in rule.scalars.items() if c is not None}
    scalars |= {n: v for n, v in given.items() if n not in rule.args}
    names, frozen = list(tensors), InputSet.snapshot(list(tensors.values()))
    old = Side(rule.before, frozen, names, scalars)
    try:
        new = Side(rule.after, frozen, names, scalars)
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError) as error:
        return f"after raises: {error}"
    if old.value.dtype != new.value.dtype:
        return "dtype" if "dtype" in rule.preserves else ""
    pairs = {"value": (old.value, new.value)}
    if "mutation" in rule.preserves:
        pairs |= {f"{n} afterwards": (t, new.after[n]) for n, t in old.after.items()}
    wide = None
    for name, (a, b) in pairs.items():
        if a.shape != b.shape:
            return f"{name}: shape {tuple(a.shape)} becomes {tuple(b.shape)}"
        if _as_claimed(rule.claim, a, b):
            continue
        if rule.claim is not Level.EXACT_REAL or not a.is_floating_point():
            return f"{name}: {a.flatten()[:8].tolist()} becomes {b.flatten()[:8].tolist()}"
        if wide is None:
            wide = _in_fp64(rule, frozen, names, scalars)
        a, b = wide[name]
        if bool((a.isfinite() != b.isfinite()).any()) or not _near(a, b, real):
            return f"{name} in fp64: {a.flatten()[:8].tolist()} becomes {b.flatten()[:8].tolist()}"
    a, b = meta_of(old.out), meta_of(new.out)
    if "stride" in rule.preserves and a.visible_strides != b.visible_strides:
        return f"stride {a.stride} becomes {b.stride}"
    if "alias" in rule.preserves and old.aliases != new.aliases:
        return f"shares memory with {sorted(old.aliases)}, then with {sorted(new.aliases)}"
    if "gradient" not in rule.preserves:
        return ""
    if rule.claim is Level.EXACT_REAL:
        old, new = _sides_in_fp64(rule, frozen, names, scalars)
    return _gradients(old, new)


def _as_claimed(claim: Level, a: torch.Tensor, b: torch.Tensor) -> bool:
    loose = claim in (Level.BIT_EXACT_MOD_ZERO_SIGN, Level.UNDER_PRECONDITION) and a.is_floating_point()
    return same_bits(a, b) or (loose and same_bits(a + 0.0, b + 0.0))


def _in_fp64(rule: Rule, frozen: InputSet, names: list[str], scalars: dict[str, Any]) -> dict[str, Any]:
    old, new = _sides_in_fp64(rule, frozen, names, scalars)
    pairs = {f"{n} afterwards": (t, new.after[n]) for n, t in old.after.items()}
    return {"value": (old.value, new.value), **pairs}


def _sides_in_fp64(rule: Rule, frozen: InputSet, names: list[str], scalars: dict[str, Any]) -> tuple[Side, Side]:
    given = frozen.rebuild()
    values = [t.detach().double() if t.is_floating_point() else t for t in given]
    wide = InputSet.snapshot([v.requires_grad_(t.requires_grad) for v, t in zip(values, given, strict=True)])
    return Side(rule.before, wide, names, scalars), Side(rule.after, wide, names, scalars)


def _near(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    both = a.isfinite() & b.isfinite()
    if not bool(both.any()):
        return True
    scale = float(a[both].abs().max())
    return float((a[both].double() - b[both].double()).abs().max()) <= tolerance * max(scale, 1e-30)


def _gradients(old: Side, new: Side) -> str:
    mine = old.gradients()
    try:
        theirs = new.gradients()
    except RuntimeError as error:
        return f"backward raises: {error}"
    if mine.keys() != theirs.keys():
        return f"gradients of {sorted(mine)} become those of {sorted(theirs)}"
    for name, a in mine.items():
        b = theirs[name]
        if bool((a.isfinite() != b.isfinite()).any()) or not _near(a, b, GRADIENT[a.dtype]):
            return f"gradient of {name}: {a.flatten()[:8].tolist()} becomes {b.flatten()[:8].tolist()}"
    return ""


def samples(rule: Rule, rng: random.Random, wanted: int) -> list[dict[str, Any]]:
    """Arguments that the rule holds for: odd sizes, layouts and values; finite ones for EXACT_REAL."""
    out: list[dict[str, Any]] = []
    for attempt in range(60 * wanted):
        if len(out) == wanted:
            break
        dtype = getattr(torch, rule.dtypes[attempt % len(rule.dtypes)])
        sizes: dict[str, int] = {}
        lead = [rng.choice(SIZES[1:-1]) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        given: dict[str, Any] = {}
        for name, text in rule.args.items():
            shape: list[int] = []
            for word in text.split():
                if word == "...":
                    shape += lead
                else:
                    shape.append(int(word) if word.isdigit() else sizes.setdefault(word, rng.choice(SIZES)))
            own = getattr(torch, rng.choice(rule.dtypes)) if rule.mixed else dtype
            t = _values(shape, own, rng, rule.claim is Level.EXACT_REAL or "finite" in rule.assumes)
            given[name] = t.abs() if "nonneg" in rule.assumes else t
        scalars = {n: rng.choice(c or (0, 1, -1, 2, 0.5)) for n, c in rule.scalars.items()}
        fits = all(bool(ASSUMED[w](t)) for w in rule.assumes for t in given.values() if t.is_floating_point())
        if fits and holds(rule, {n: spec_of(t) for n, t in given.items()}, scalars):
            grad = "gradient" in rule.preserves and rule.site != "late"
            given = {n: t.requires_grad_() if grad and t.is_floating_point() else t for n, t in given.items()}
            out.append({**given, **scalars})
    return out


def _values(shape: list[int], dtype: torch.dtype, rng: random.Random, finite: bool) -> torch.Tensor:
    n = torch.Size(shape).numel()
    g = torch.Generator().manual_seed(rng.randrange(1 << 30))
    if dtype.is_floating_point:
        flat = torch.randn(n, generator=g, dtype=torch.float64)
        if not finite:
            pick = torch.rand(n, generator=g) < 0.5
            odd = torch.tensor(ODD, dtype=torch.float64)[torch.randint(len(ODD), (n,), generator=g)]
            flat = torch.where(pick, odd, flat)
    elif dtype == torch.bool:
        flat = torch.randint(2, (n,), generator=g)
    else:
        info = torch.iinfo(dtype)
        flat = torch.randint(max(info.min, -(2**62)), min(info.max, 2**62) + 1, (n,), generator=g)
        odd = torch.tensor([info.min, info.max, 0, 1, 2, 3, 5, min(7, info.max)])
        flat = torch.where(torch.rand(n, generator=g) < 0.5, odd[torch.randint(len(odd), (n,), generator=g)], flat)
    t = flat.to(dtype).reshape(shape)
    kind = rng.randrange(4) if t.ndim else 0
    if kind == 1:
        return t.flip(0).mT.contiguous().mT if t.ndim >= 2 else t
    if kind == 2:  # with gaps and an offset
        wide = torch.zeros(*shape[:-1], 2 * shape[-1] + 1, dtype=dtype)
        wide[..., 1::2] = t
        return wide[..., 1::2]
    return t
