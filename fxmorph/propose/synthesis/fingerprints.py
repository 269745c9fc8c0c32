"""Fingerprints of expressions: what they compute on values where rules go wrong, and over the reals.

Expressions are built bottom-up, so each is one operator on values that are there already.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from fxmorph.propose.synthesis.forms import Expression, evaluate, kernel
from fxmorph.prove.field.elements import FRESH
from fxmorph.prove.field.field_domain import Field
from fxmorph.prove.shadow_memory import Memory, NotModelled, Shadowing

#: What words of shapes stand for: sizes with odd vector tails, a size of one, unequal ones.
BITS_SIZES: tuple[dict[str, tuple[int, ...]], ...] = (
    {"...": (2,), "m": (9,), "n": (11,), "k": (5,)},
    {"...": (), "m": (3,), "n": (1,), "k": (2,)},
)
REAL_SIZES: dict[str, tuple[int, ...]] = {"...": (3,), "m": (5,), "n": (7,), "k": (2,)}
#: Over the reals results are compared to so many places after the point, and modulo noise of fp64.
PLACES = 6
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, math.inf, -math.inf, math.nan, 3.4e38, -3.4e38, 1e-38, 1e-45, 1e20)


def concrete(shape: Sequence[str], sizes: Mapping[str, tuple[int, ...]]) -> list[int]:
    return [n for word in shape for n in ((1,) if word == "1" else sizes[word])]


@dataclass(frozen=True)
class Key:
    """``bits``: of float32 with special values, up to the sign of zero; ``real``: of rounded fp64."""

    bits: int
    real: int


class Values:
    """Values of arguments that the fingerprints are taken on, the same for the same seed.

    ``positive``: all floating-point arguments are positive and finite.
    """

    def __init__(self, leaves: Sequence[Expression], seed: int, positive: bool) -> None:
        generator = torch.Generator().manual_seed(random.Random(f"values {seed} {positive}").getrandbits(48))
        special = [v for v in _SPECIAL if math.isfinite(v) and v > 0] if positive else list(_SPECIAL)
        pool = torch.tensor(special, dtype=torch.float64)

        def make(leaf: Expression, sizes: Mapping[str, tuple[int, ...]], real: bool) -> torch.Tensor:
            shape = concrete(leaf.shape, sizes)
            if leaf.kind == "b":
                return torch.randint(2, shape, generator=generator).bool()
            x = torch.randn(shape, generator=generator, dtype=torch.float64)
            x = x.abs() + 0.1 if positive else x
            if real:
                return x
            picked = pool[torch.randint(len(pool), shape, generator=generator)]
            return torch.where(torch.rand(shape, generator=generator) < 0.5, picked, x).float()

        self.sets = [{a.text: make(a, sizes, False) for a in leaves} for sizes in BITS_SIZES]
        self.sets.append({a.text: make(a, REAL_SIZES, True) for a in leaves})

    def leaf(self, e: Expression) -> list[torch.Tensor]:
        return [s[e.text] for s in self.sets]


def results(e: Expression, operands: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor] | None:
    """The expression on each set of values, from its operands'; None where it raises."""
    assert e.form is not None
    call = kernel(e.form)
    try:
        return [call(*given) for given in zip(*operands, strict=True)]
    except (RuntimeError, IndexError, TypeError):
        return None


def key(made: Sequence[torch.Tensor]) -> Key:
    *bits, real = made
    return Key(hash(tuple(_bytes(t) for t in bits)), hash(_rounded(real)))


def _bytes(t: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    if t.dtype == torch.bool:
        return "bool", tuple(t.shape), t.contiguous().numpy().tobytes()
    a = (t + 0.0).contiguous().numpy()  # -0 becomes 0
    a[a != a] = math.nan
    return str(a.dtype), a.shape, a.tobytes()


def _rounded(t: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    if t.dtype == torch.bool:
        return _bytes(t)
    return "real", tuple(t.shape), ((t * 10.0**PLACES).round() + 0.0).contiguous().numpy().tobytes()


class FieldSample:
    """One run of expressions on random elements of two prime fields (``prove/field/``)."""

    def __init__(self, leaves: Sequence[Expression], seed: int) -> None:
        self.seed, self.leaves = seed, leaves
        self.natives = Values(leaves, seed, positive=False).sets[-1]

    def elements(self, e: Expression) -> torch.Tensor | None:
        """Elements modulo p (real part) and q, NaN where undefined; None where an operator has no meaning there."""
        field = Field(self.seed)
        memory = Memory(field)
        given = {}
        for leaf in self.leaves:
            t = self.natives[leaf.text].clone()
            field.note(t, leaf.kind == "b" and not field.m.mixed, FRESH, float(leaf.kind == "b"))
            memory.adopt(t, field.input(leaf.text, t.numel(), t.dtype).reshape(t.shape))
            given[leaf.text] = t
        try:
            with torch.no_grad(), Shadowing(memory):
                out = evaluate(e, given)
            return memory.shadow(out).clone()
        except NotModelled:
            return None


def agree(a: torch.Tensor | None, b: torch.Tensor | None) -> bool | None:
    """Whether two results are the same field elements where both are defined; None where little is."""
    if a is None or b is None or a.shape != b.shape:
        return None
    told: bool | None = None
    for left, right in ((a.real, b.real), (a.imag, b.imag)):
        both = ~(left.isnan() | right.isnan())
        if bool((left != right)[both].any()):
            return False
        if 2 * int(both.sum()) >= both.numel() > 0:
            told = True
    return told
