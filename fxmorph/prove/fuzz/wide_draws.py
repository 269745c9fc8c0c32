"""Arguments drawn widely, by other draws than the prover's own.

Sizes to 3,000, any strides and offsets, tensors in one memory, every value of 16 bits, integers to 300 and at the
ends of their range, and the numbers in the rule's own text with what they make of each other and their neighbours.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterator, Sequence

import torch

from fxmorph.programs.bits import neighbours
from fxmorph.programs.inputs import spec_of
from fxmorph.prove.fuzz.mutants import Mutant
from fxmorph.rewriting.instances import Instance, holds, over_memory
from fxmorph.rewriting.preconditions import meet
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rules import Rule

#: Sizes around which code changes its ways.
_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 48, 63, 64, 65, 96, 100, 101, 127,
          128, 129, 200, 255, 256, 257, 300, 511, 512, 513, 1000, 1023, 1025, 2048, 2049, 3000)  # fmt: skip
_SMALL = _SIZES[:12]
_INTEGERS = (tuple(range(-3, 4)), tuple(range(-12, 13)), tuple(range(300)), tuple(range(-300, 301)), (0, 1, -1))


def numbers_of(mutant: Mutant) -> list[float]:
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


def wide_arguments(rule: Rule, dtype: str, turn: int, rng: random.Random) -> Instance | None:
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


def wide_values(instance: Instance, told: list[float], rng: random.Random) -> Iterator[dict[str, torch.Tensor]]:
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
