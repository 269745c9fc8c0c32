"""Trying to refute a rule in eager: values aimed at what rewrites forget, on both of its sides.

A difference that is found is a counterexample that needs no replay, and what is not found bounds
what is worth proving: a pair of sides that differs in the sign of zero is not sent to a solver to
be proved equal in all bits.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch

from fxmorph.model import Level
from fxmorph.programs.bits import neighbours, same_bits
from fxmorph.programs.inputs import dtype_name, flat_storage
from fxmorph.prove.rule_text import asks_python_for_numbers, counts_in_few_bits, told_values
from fxmorph.rewriting.instances import Instance, over_memory
from fxmorph.rewriting.passed_numbers import passed_numbers
from fxmorph.rewriting.preconditions import meet
from fxmorph.rewriting.sides import (
    REAL_TOLERANCE,
    AfterRaises,
    BeforeRaises,
    Sides,
    both,
    real_gap,
    real_sides,
    relative_gap,
)
from fxmorph.rules import Rule

#: The same as ``REAL_TOLERANCE`` in 16 and 32 bits, for sides that choose their dtype themselves: blatant differences.
NARROW_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}
#: How far gradients may differ: casts inside a side round them, and a wrong one is wrong by a factor.
GRADIENT_TOLERANCE = 2e-2
#: Gradients that are zero but for rounding are compared as if they were this large.
GRADIENT_FLOOR = 1e-3
#: Integer arguments of a mixed rule up to this overflow nothing, where its numbers are small too.
_SMALL_INTEGER = 16
#: How many integers of an argument its others may be given.
_KNOWN = 16
#: Arguments with more elements get fewer kinds of values.
MANY_ELEMENTS = 100_000


class Contradiction(StrEnum):
    """What a counterexample contradicts."""

    NONE = ""  #: there is no counterexample
    BITS = "bits"  #: both sides give other bits
    ZERO_SIGN = "zero-sign"  #: both sides give zeros of other signs
    ARGUMENT = "argument"  #: an argument holds other bits, or zeros of other signs, afterwards
    VALUES = "values"  #: both sides give other integers or truth values
    REALS = "reals"  #: both sides give other numbers over the reals
    LOST_NUMBER = "lost-number"  #: a number becomes NaN
    SHAPE = "shape"  #: the result has another shape
    DTYPE = "dtype"  #: the result has another dtype
    STRIDE = "stride"  #: the result has other strides
    ALIAS = "alias"  #: the result shares memory with something else
    RAISES = "raises"  #: the replacement raises
    GRADIENT = "gradient"  #: gradients differ, or only one side has one


#: How the words of a counterexample begin; longer beginnings first.
_BEGINNINGS = {
    "bits differ": Contradiction.BITS, "the sign of zero differs": Contradiction.ZERO_SIGN,
    "values differ over the reals": Contradiction.REALS, "values differ": Contradiction.VALUES,
    "a number becomes NaN": Contradiction.LOST_NUMBER, "shape ": Contradiction.SHAPE, "dtype ": Contradiction.DTYPE,
    "strides [": Contradiction.STRIDE, "the result shares memory": Contradiction.ALIAS,
    "after raises": Contradiction.RAISES, "the gradient of": Contradiction.GRADIENT,
    "only before has a gradient": Contradiction.GRADIENT, "only after has a gradient": Contradiction.GRADIENT,
}  # fmt: skip


def contradiction_in(words: str) -> Contradiction:
    """What a counterexample contradicts that a release without codes stored as text."""
    found = next((code for start, code in _BEGINNINGS.items() if words.startswith(start)), Contradiction.NONE)
    return Contradiction.ARGUMENT if "holds afterwards" in words else found


@dataclass(frozen=True)
class Counterexample:
    """Values on which a rule does not keep what it says; ``code`` says what that is, the rest is for people."""

    code: Contradiction
    what: str
    values: tuple[tuple[str, str], ...] = ()
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        given = ", ".join(f"{n} = {text}" for n, text in self.values)
        sides = f": before gives {self.before}, after gives {self.after}" if self.before else ""
        return f"{self.what}{' for ' + given if given else ''}{sides}"


@dataclass(frozen=True)
class Falsified:
    """``best`` is the strongest level that no value contradicted, under ``assumptions``.

    ``counterexample`` contradicts the rule's claim or a promise, None where nothing does.
    """

    best: Level
    assumptions: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    #: Kinds of values on which both sides ran.
    tried: tuple[str, ...] = ()


# -- values ----------------------------------------------------------------------

#: Values for a whole memory, 1-D.
Fill = Callable[[torch.Tensor, random.Random], torch.Tensor]


def _pick(t: torch.Tensor, pool: Sequence[float], rng: random.Random) -> torch.Tensor:
    """Of ``t``'s dtype and shape, each element drawn from ``pool``."""
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    whole = all(isinstance(v, int) for v in pool)
    values = torch.tensor(pool, dtype=torch.int64 if whole else torch.float64).to(t.dtype)
    return values[torch.randint(len(pool), t.shape, generator=generator)]


def _uniform(t: torch.Tensor, low: float, high: float, rng: random.Random) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    return (torch.rand(t.shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(t.dtype)


def _wide(t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    scale = torch.exp2(torch.randint(-10, 11, t.shape, generator=generator).double())
    return (torch.randn(t.shape, generator=generator, dtype=torch.float64) * scale).to(t.dtype)


def _extreme(t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    f = torch.finfo(t.dtype)
    pool = [f.max, -f.max, f.tiny, -f.tiny, f.tiny / 2, -f.tiny / 4, f.eps, 1 + f.eps, 1 - f.eps / 2, f.max / 2, 1.0,
            0.1, 1 / 3, -0.7, 0.0, -0.0]  # fmt: skip
    return _pick(t, pool, rng)


def _around(t: torch.Tensor, told: Sequence[float], rng: random.Random) -> torch.Tensor:
    """These numbers, more often than their neighbours on either side in ``t``'s dtype."""
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    exact = torch.tensor(told, dtype=torch.float64).to(t.dtype)
    exact = exact[exact.isfinite()]
    pool = torch.cat([exact, exact, *neighbours(exact)]) if len(exact) else torch.ones(1, dtype=t.dtype)
    return pool[torch.randint(len(pool), t.shape, generator=generator)]


def _beside(integers: Sequence[torch.Tensor], t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """``t`` with some elements as integers in the same place are, as far as its dtype has them."""
    like = next((flat for i in integers if len(flat := flat_storage(i)) == len(t)), None)
    if like is None:
        return t
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    same = like.to(t.dtype)
    return torch.where(same.isfinite() & (torch.rand(t.shape, generator=generator) < 0.5), same, t)


def _whole(t: torch.Tensor, told: Sequence[float], rng: random.Random) -> torch.Tensor:
    """The whole ones of these numbers and their neighbours, as far as ``t``'s dtype has them."""
    if t.dtype == torch.bool:
        return _pick(t, [0, 1], rng)
    limits = torch.iinfo(t.dtype)
    pool = {n for v in told if v == int(v) for n in (int(v) - 1, int(v), int(v) + 1)}
    return _pick(t, sorted(n for n in pool if limits.min < n <= limits.max) or [1, 2], rng)


_INF, _NAN = float("inf"), float("nan")
#: Kind of values -> how a floating-point argument gets them.
FLOATING: dict[str, Fill] = {
    "moderate": lambda t, r: _uniform(t, -2, 2, r),
    "integers": lambda t, r: _pick(t, [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0], r),
    "zeros": lambda t, r: _pick(t, [0.0, -0.0, 0.0, -0.0, 1.0, -1.0], r),
    "alike": lambda t, r: _pick(t, [r.choice((1.0, 1.0, -1.0, 3.0))], r),
    "halves": lambda t, r: _pick(t, [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.25], r),
    "wide": _wide,
    "extreme": _extreme,
    "infinite": lambda t, r: _pick(t, [_INF, -_INF, 0.0, -0.0, 1.0, -2.0, 0.5], r),
    "nan": lambda t, r: _pick(t, [_NAN, _NAN, _INF, 0.0, -1.0, 2.0], r),
}
QUICK = ("moderate", "zeros", "alike", "wide", "nan")
#: So many orders of extreme values are drawn before they come again.
_ORDERS = 16
#: Kinds that are finite and of moderate size, on which real equality shows in fp64.
REAL_KINDS = ("moderate", "integers", "zeros", "alike", "halves", "told")
_FINITE = ("moderate", "integers", "zeros", "alike", "halves", "told", "wide", "extreme")


#: Around what 8, 16, 24, 32 and 53 bits can hold.
WIDE_INTEGERS = (127, 128, 255, 256, 32767, 65536, 2**24 + 1, 2**24 - 1, 2**31 - 1, 2**53 + 1, -129, -(2**24) - 1)


def _integers(t: torch.Tensor, kind: str, rng: random.Random) -> torch.Tensor:
    if t.dtype == torch.bool:
        return _pick(t, {"zeros": [0], "alike": [1], "wide": [1]}.get(kind, [0, 1]), rng)
    limits = torch.iinfo(t.dtype)
    pool = {
        "moderate": [0, 1, 2, 3, 5, 7],
        "integers": [-3, -2, -1, 0, 1, 2, 3] if limits.min < 0 else [0, 1, 2, 3],
        "zeros": [0],
        "alike": [(1, 2, 100)[t.numel() % 3]],
        "wide": [v for v in WIDE_INTEGERS if limits.min <= v <= limits.max],
        # Without -1: the least integer divided by it ends the process (SIGFPE).
        "extreme": [limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2 + 1, 0, 1],
    }.get(kind)  # fmt: skip
    if pool is None:
        return t.clone()
    return _each(t, pool, rng) if kind == "extreme" else _pick(t, pool, rng)


def _each(t: torch.Tensor, pool: Sequence[int], rng: random.Random) -> torch.Tensor:
    """Of ``t``'s dtype and shape: all of ``pool`` in some order, then in others."""
    orders = min(-(-t.numel() // len(pool)), _ORDERS)
    values = torch.tensor([v for _ in range(orders) for v in rng.sample(pool, len(pool))], dtype=t.dtype)
    return values.repeat(-(-t.numel() // max(len(values), 1)))[: t.numel()].reshape(t.shape) if orders else t.clone()


def kinds(instance: Instance, quick: bool = False) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """(kind, values) for every kind that the rule's assumptions allow, after the instance's own.

    ``quick``: a few kinds only, as many elements get.
    """
    rule = instance.rule
    yield "own", instance.copies()
    # Floating-point arguments meet what integer ones are, as far as their dtype tells it from its neighbours.
    known = {float(v) for name in sorted(instance.known()) for v in instance.tensors[name].flatten()[:_KNOWN].tolist()}
    told = (*told_values(rule), *sorted(v for v in known if abs(v) > _SMALL_INTEGER))
    if asks_python_for_numbers(rule):
        told += passed_numbers(instance)
    near = functools.partial(_beside, [instance.tensors[name] for name in sorted(instance.known())])
    counted = counts_in_few_bits(rule)
    wanted = [*(["told"] if told else []), *(k for k in FLOATING if k != "alike" or counted)]
    floating = any(t.is_floating_point() for t in instance.tensors.values())
    if "finite" in rule.assumes:
        wanted = [k for k in wanted if k in _FINITE]
    elif "no_nan" in rule.assumes:
        wanted.remove("nan")
    if quick or sum(t.numel() for t in instance.tensors.values()) > MANY_ELEMENTS:
        wanted = [k for k in wanted if k in (*QUICK, "told")]
    for kind in wanted:
        rng = random.Random(f"{rule.id} {kind}")

        def fill(t: torch.Tensor, kind: str = kind, rng: random.Random = rng) -> torch.Tensor:
            if t.is_floating_point():
                return _assumed(rule, near(_around(t, told, rng), rng) if kind == "told" else FLOATING[kind](t, rng))
            if (rule.mixed and floating) or t.is_complex():
                return t.clone()  # indices, masks
            return _assumed(rule, _whole(t, told, rng) if kind == "told" else _integers(t, kind, rng))

        if floating or kind in ("moderate", "integers", "zeros", "alike", "told", "wide", "extreme"):
            yield kind, over_memory(instance.tensors, fill)


def _assumed(rule: Rule, t: torch.Tensor) -> torch.Tensor:
    """Values, made such that they meet what the rule assumes."""
    meet(rule.assumes, t)
    return t


def drawn(instance: Instance) -> Instance:
    """The instance with values that its rule, shapes and dtypes alone decide.

    Values that enter a proof (the indices of a mixed rule) stay.  What is shown of an instance is
    kept for all with the same key, so that no one site's values may have a say in it.
    """
    rule = instance.rule
    rng = random.Random(f"{rule.id} drawn")

    def one(t: torch.Tensor) -> torch.Tensor:
        if t.is_complex():
            parts = [_uniform(torch.empty(t.shape, dtype=torch.float64), -2, 2, rng) for _ in range(2)]
            return torch.complex(*parts).to(t.dtype)
        if t.is_floating_point():
            return _assumed(rule, _uniform(t, -2, 2, rng))
        if t.dtype == torch.bool:
            return _pick(t, [0, 1], rng)
        return t.clone() if rule.mixed else _assumed(rule, _pick(t, [1, 2, 3, 5, 7], rng))

    return instance.with_values(over_memory(instance.tensors, one))


# -- verdicts --------------------------------------------------------------------


def falsify(instance: Instance, quick: bool = False, gradients: bool = True) -> Falsified:
    """Run both sides on every kind of values (a few, if ``quick``); compare ``gradients`` where they are promised.

    Raises :class:`BeforeRaises` where the pattern does not run at all, :class:`AfterRaises` where the replacement
    does not and need not.
    """
    rule = instance.rule
    equal: dict[str, str] = {}  # kind -> "bits", "zero" (equal but for the sign of zero) or "no"
    for kind, values in kinds(instance, quick):
        try:
            sides = both(instance, values)
        except BeforeRaises:
            if kind == "own":
                raise
            continue
        except Exception as error:
            if "raises" in rule.preserves:
                return _refuted(Contradiction.RAISES, f"after raises {type(error).__name__}", values)
            raise AfterRaises(f"{type(error).__name__}: {error}") from error
        broken = _broken_promise(instance, sides) if kind in ("own", "moderate") else None
        if broken is not None:
            return _refuted(*broken, {})
        equal[kind] = _equality(sides)
        contradiction = _contradicted(instance, kind, values, sides, equal[kind])
        if contradiction is not None:
            return Falsified(_best(equal)[0], _best(equal)[1], contradiction, tuple(equal))
    best, assumptions = _best(equal)
    if gradients and "gradient" in rule.preserves and not instance.sharing:
        wrong = _gradient_difference(instance)
        if wrong is not None:
            return Falsified(best, assumptions, wrong, tuple(equal))
    return Falsified(best, assumptions, None, tuple(equal))


def contradiction(instance: Instance, values: dict[str, torch.Tensor]) -> Counterexample | None:
    """How these values contradict the rule's claim; None where they do not, or where it does not run on them."""
    try:
        sides = both(instance, values)
    except Exception:
        return None
    return _contradicted(instance, "given", values, sides, _equality(sides))


def _refuted(code: Contradiction, what: str, values: dict[str, torch.Tensor]) -> Falsified:
    return Falsified(Level.UNKNOWN, (), Counterexample(code, what, tuple((n, _short(t)) for n, t in values.items())))


def _equality(sides: Sides) -> str:
    pairs = [(sides.before, sides.after), *((sides.left[n], sides.right[n]) for n in sides.left)]
    if all(same_bits(a, b) for a, b in pairs):
        return "bits"
    return "zero" if all(same_bits(a, b) or _same_but_zero(a, b) for a, b in pairs) else "no"


def _same_but_zero(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.is_floating_point() and a.dtype == b.dtype and same_bits(a + 0.0, b + 0.0)


#: (assumptions, kinds that they leave), weakest first.
_UNDER: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = (
    ((), frozenset(("own", "told", *FLOATING))),
    (("no_nan",), frozenset(("own", "told", *FLOATING)) - {"nan"}),
    (("finite",), frozenset(("own", *_FINITE))),
)


def _best(equal: dict[str, str]) -> tuple[Level, tuple[str, ...]]:
    """The strongest level that the outcomes allow, and what it must assume."""
    for assumptions, allowed in _UNDER:
        outcomes = {equal[k] for k in equal if k in allowed}
        if "no" not in outcomes:
            if assumptions:
                extra = ("mod_zero_sign",) if "zero" in outcomes else ()
                return Level.UNDER_PRECONDITION, (*assumptions, *extra)
            return (Level.BIT_EXACT_MOD_ZERO_SIGN if "zero" in outcomes else Level.BIT_EXACT), ()
    return Level.EXACT_REAL, ()


def _broken_promise(instance: Instance, sides: Sides) -> tuple[Contradiction, str] | None:
    """What of the metadata is not kept though the rule says so."""
    rule, old, new = instance.rule, sides.before, sides.after
    if rule.site == "late":
        return None
    kept = "mutation" in rule.preserves and all(same_bits(t, sides.right[n]) for n, t in sides.left.items())
    for name in sides.left if kept else ():
        if not same_bits(flat_storage(sides.left[name]), flat_storage(sides.right[name])):
            return Contradiction.ARGUMENT, f"memory around {name} is written for {_shapes(instance)}"
    if old.shape != new.shape:
        text = f"shape {tuple(old.shape)} becomes {tuple(new.shape)} for {_shapes(instance)}"
        return Contradiction.SHAPE, text
    if old.dtype != new.dtype and "dtype" in rule.preserves:
        return Contradiction.DTYPE, f"dtype {old.dtype} becomes {new.dtype} for {_shapes(instance)}"
    if "stride" in rule.preserves and old.numel():
        visible = [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (old, new)]
        if visible[0] != visible[1]:
            return Contradiction.STRIDE, f"strides {visible[0]} become {visible[1]} for {_shapes(instance)}"
    if "alias" in rule.preserves and old.numel():
        shares = sides.shares(old, sides.left), sides.shares(new, sides.right)
        if shares[0] != shares[1]:
            text = f"the result shares memory with {shares[0] or 'nothing'}, then with {shares[1] or 'nothing'}"
            return Contradiction.ALIAS, text
    return None


def _shapes(instance: Instance) -> str:
    return ", ".join(f"{n} {tuple(t.shape)} {t.stride()}" for n, t in instance.tensors.items())


def _contradicted(
    instance: Instance, kind: str, values: dict[str, torch.Tensor], sides: Sides, equality: str
) -> Counterexample | None:
    rule, claim = instance.rule, instance.rule.claim
    if sides.before.dtype != sides.after.dtype:
        sides = _in_one_dtype(sides)
        equality = _equality(sides)
    if equality == "bits":
        return _apart_in_reals(instance, kind, values) if claim is Level.EXACT_REAL else None
    exact = claim in (Level.INDEX_EXACT, Level.BIT_EXACT)
    if exact or (claim is Level.BIT_EXACT_MOD_ZERO_SIGN and equality == "no"):
        if equality == "no":
            return _shown(Contradiction.BITS, "bits differ", values, sides)
        return _shown(Contradiction.ZERO_SIGN, "the sign of zero differs", values, sides)
    if rule.site == "late" or equality == "zero" or kind not in (*REAL_KINDS, "extreme"):
        return None
    old, new = sides.before, sides.after
    if not (old.is_floating_point() or old.is_complex()):
        floats = any(t.is_floating_point() for t in values.values())
        nan = floats and not torch.equal(old, old)
        return None if nan else _shown(Contradiction.VALUES, "values differ", values, sides)
    if kind == "extreme":
        return None
    # Small whole numbers and zeros overflow nothing: a result is lost that the pattern has.
    small = old.dtype != torch.float16 and all(_small(t) for t in values.values())
    if kind in ("integers", "zeros") and small and bool((old.isfinite() & new.isnan()).any()):
        return _shown(Contradiction.LOST_NUMBER, "a number becomes NaN", values, sides)
    gap = real_gap(instance.with_values(values))
    if gap == float("inf") and kind not in ("moderate", "halves"):
        return None  # at zeros and Inf a quotient may be finite on one side
    if gap is None:
        limit = NARROW_TOLERANCE.get(old.dtype)
        # Numbers of a text may be of any size, and what is left of large ones that cancel is rounding.
        floor = max(map(_largest, values.values())) if kind == "told" else 0.0
        narrow = relative_gap(old.double(), new.double(), floor) if limit else None
        apart = narrow is not None and limit is not None and limit < narrow < float("inf")
        # The range of a narrow dtype may explain a few elements, not all of them.
        lost = bool(old.isfinite().all()) and not bool(new.isfinite().any())
        apart = apart or (lost and old.numel() > 0 and kind in ("moderate", "halves"))
    else:
        apart = gap > REAL_TOLERANCE
    return _shown(Contradiction.REALS, "values differ over the reals", values, sides) if apart else None


def apart_in_reals(instance: Instance) -> Counterexample | None:
    """Values of a narrow dtype on which both sides are other numbers before they are rounded to the same bits."""
    if not any(t.dtype in NARROW_TOLERANCE for t in instance.tensors.values()):
        return None
    found = (_apart_in_reals(instance, kind, values) for kind, values in kinds(instance, quick=True))
    return next((c for c in found if c is not None), None)


def _apart_in_reals(instance: Instance, kind: str, values: dict[str, torch.Tensor]) -> Counterexample | None:
    """Where both sides round to the same bits of a narrow dtype: whether they are the same number before that."""
    narrow = any(t.dtype in NARROW_TOLERANCE for t in values.values())
    if not narrow or kind not in ("told", "moderate"):
        return None
    sides = real_sides(instance.with_values(values))
    gap = real_gap(instance.with_values(values), sides) if sides is not None else None
    if sides is None or gap is None or not REAL_TOLERANCE < gap < float("inf"):
        return None
    wide = {n: t.double() if t.is_floating_point() else t for n, t in values.items()}
    return _shown(Contradiction.REALS, "values differ over the reals", wide, sides)


def _largest(t: torch.Tensor) -> float:
    """The largest magnitude among numbers."""
    return float(t.double().abs().max()) if t.numel() and not t.is_complex() else 0.0


def _small(t: torch.Tensor) -> bool:
    """Whether no power or product of a few such numbers overflows."""
    return t.is_floating_point() or _largest(t) <= _SMALL_INTEGER


def _in_one_dtype(sides: Sides) -> Sides:
    """Results that a rule does not promise to give in one dtype, in the one that both are promoted to."""
    common = torch.promote_types(sides.before.dtype, sides.after.dtype)
    return replace(sides, before=sides.before.to(common), after=sides.after.to(common))


def _shown(code: Contradiction, what: str, values: dict[str, torch.Tensor], sides: Sides) -> Counterexample:
    old, new = sides.before, sides.after
    for name in sides.left:
        if same_bits(old, new) and not same_bits(sides.left[name], sides.right[name]):
            old, new, what = sides.left[name], sides.right[name], f"{what} in what {name} holds afterwards"
            code = Contradiction.ARGUMENT
    if old.shape == new.shape and old.numel():
        differ = ~((old == new) & (old.signbit() == new.signbit())) if old.is_floating_point() else old != new
        if old.is_floating_point():
            differ &= ~(old.isnan() & new.isnan())
        at = tuple(differ.nonzero()[0].tolist()) if bool(differ.any()) else (0,) * old.ndim
        left, right = f"{old[at].item()!r} at {list(at)}", f"{new[at].item()!r}"
        given = tuple((n, _element_or_all(t, at, old)) for n, t in values.items())
        return Counterexample(code, what, given, left, right)
    return Counterexample(code, what, tuple((n, _short(t)) for n, t in values.items()), _short(old), _short(new))


def _element_or_all(t: torch.Tensor, at: tuple[int, ...], like: torch.Tensor) -> str:
    if t.numel() <= 12 or t.shape != like.shape:
        return _short(t)
    return f"{t[at].item()!r} at {list(at)} of shape {tuple(t.shape)}"


def _short(t: Any) -> str:
    if isinstance(t, torch.Tensor) and t.numel() <= 24:
        return f"{t.tolist()!r} ({str(t.dtype).removeprefix('torch.')})"
    return f"shape {tuple(t.shape)}" if isinstance(t, torch.Tensor) else repr(t)


def _gradient_difference(instance: Instance) -> Counterexample | None:
    """A kind of values on which the gradients of the sides differ (None: nowhere, or they have none).

    They are taken in float64, or the widest dtype that the rule is for.
    """
    for kind, values in kinds(instance):
        # A rule that claims bits claims them beside NaN too.
        if kind not in ("told", "moderate", "integers", "zeros", *(("nan",) if instance.rule.claim.bitwise else ())):
            continue
        grads = [_gradients(instance, values, side) for side in ("before", "after")]
        if grads[0] is None or grads[1] is None:
            if (grads[0] is None) != (grads[1] is None):
                what = f"only {'after' if grads[0] is None else 'before'} has a gradient"
                return Counterexample(Contradiction.GRADIENT, what)
            return None
        for name in grads[0]:
            a, b = grads[0][name], grads[1][name]
            gap = relative_gap(a, b, GRADIENT_FLOOR if a.dtype.itemsize > 2 else 0.25)
            if gap is not None and gap > GRADIENT_TOLERANCE:
                shown = tuple((n, _short(t)) for n, t in values.items())
                what = f"the gradient of {name} differs"
                return Counterexample(Contradiction.GRADIENT, what, shown, _short(a), _short(b))
    return None


def _gradients(instance: Instance, values: dict[str, torch.Tensor], side: str) -> dict[str, torch.Tensor] | None:
    widest = next((d for d in (torch.float64, torch.float32) if dtype_name(d) in instance.rule.dtypes), None)
    leaves = over_memory(values, lambda t: t.to(widest or t.dtype, copy=True) if t.is_floating_point() else t.clone())
    for t in leaves.values():
        t.requires_grad_(t.is_floating_point())
    # What is written must not be a leaf.
    given = {n: t.as_strided(t.shape, t.stride()).mul(1.0) if t.requires_grad else t for n, t in leaves.items()}
    try:
        out = getattr(instance, side)(given)
        if not out.requires_grad:
            return None
        weights = torch.linspace(0.5, 1.5, max(out.numel(), 1), dtype=torch.float64, device=out.device)[
            : out.numel()
        ].reshape(out.shape)
        (out.double() * weights).sum().backward()
    except Exception:
        return None
    return {n: (torch.zeros_like(t) if t.grad is None else t.grad) for n, t in leaves.items() if t.requires_grad}
