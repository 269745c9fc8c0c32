"""Polynomial identity testing of whole programs: they are run on random elements of a finite field.

Two rational functions that are not the same differ at a random point of a field of p elements but
with probability degree/p (Schwartz 1980, Zippel 1979), so programs of sums, products and quotients
are told apart, at full size and at the cost of running them.  exp is a homomorphism from the
additive group of a second field into the first (Mirage, OSDI 2025), log its inverse; other
functions are random ones: what holds for a random function holds for all.  Order is one of three
(:class:`~fxmorph.prove.field.elements.Order`).

``error`` of one trial: the difference of two elements is a rational function of degree D in random
elements and in values of random functions, so it is 0 by chance with probability at most D / q, and
arguments of those functions that differ coincide with probability at most their degrees / q.  If at
most D such coincidences could hide a difference, (1 + sum of those degrees) D / q bounds all; where
that is above 1/10, degrees are added up instead and ``independent-functions`` is assumed.  The
symbols of squares, which stand for signs, are taken for independent (Weil: up to D / sqrt(p)).  A
difference of degree k in truth values that are 0 or 1 shows with probability 2**-k.  Trials are
independent.

What is shown equal is equal over the reals, where both are defined.  What is not is *unknown*: the
model has fewer laws than the reals have.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxmorph.programs.inputs import InputSet
from fxmorph.prove.field.arithmetic import Arithmetic
from fxmorph.prove.field.elements import FRESH, NUMBER, Order, Val
from fxmorph.prove.field.field_domain import Field
from fxmorph.prove.field.primes import Q, salt
from fxmorph.prove.shadow_memory import Memory, NotModelled, Shadowing, Unread
from fxmorph.rewriting.instances import call
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.storages import storage_key


@dataclass(frozen=True)
class Fielded:
    """Whether two programs compute the same over the reals.

    ``equal``: True (with probability 1 - ``error`` over the random choices), False (not shown;
    *not* a refutation), None (not modelled, or nothing to compare).
    """

    equal: bool | None
    trials: int
    error: float
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0.0

    @property
    def wraps(self) -> bool:
        """Whether it holds for integers that do not overflow: theirs do, and real numbers do not."""
        return "no-overflow" in self.assumptions

    @property
    def shown(self) -> bool:
        """Whether it holds of all values: samples of equal ones do not show what holds for them."""
        return bool(self.equal) and not self.wraps and "ties-sampled" not in self.assumptions

    @property
    def why_not(self) -> str:
        """Why it is not shown."""
        if self.wraps:
            return "shown for integers that do not overflow"
        return "shown but for equal values that are compared" if self.equal else self.reason


#: What ``error`` has to be below for programs to count as equal, and how many trials that may take.
MAX_ERROR = 1e-6
MAX_TRIALS = 400
#: Trials with many equal elements, where truth values of comparisons are seen: as many as it takes
#: to try this many elements, within these bounds.
PLANTED_ELEMENTS, PLANTED_TRIALS = 2000, (8, 96)
#: Elements of results that trials beyond those asked for may compare in all; not a time, so that
#: verdicts do not depend on the load of the machine.
MAX_COMPARED = 4_000_000


@dataclass
class _Side:
    """One program's run: the elements of what it returns and of its arguments' memory at the end."""

    results: dict[str, Val]
    arithmetic: Arithmetic


def _run(
    function: Callable[..., Any],
    tensors: dict[str, torch.Tensor],
    scalars: dict[str, Any],
    field: Field,
    gradients: bool,
    integers: bool,
) -> _Side:
    copies = dict(zip(tensors, InputSet.snapshot([t.detach() for t in tensors.values()]).rebuild(), strict=True))
    memory = Memory(field)
    entered: set[int] = set()
    for name, t in copies.items():
        key = storage_key(t)
        if key in entered:
            continue
        entered.add(key)
        unknown = t.is_floating_point() or (integers and not t.is_complex())
        if not unknown:
            memory.shadow(t)
            continue
        flat = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
        field.note(t, False, FRESH, float(t.dtype == torch.bool and not field.m.mixed), given=True)
        memory.adopt(flat, field.input(name, flat.numel(), t.dtype))
    shared = len(entered) < len(copies)
    given = dict(copies)
    leaves: dict[str, torch.Tensor] = {}
    if gradients:
        for name, t in copies.items():
            if t.is_floating_point():
                leaves[name] = t.requires_grad_()
                given[name] = t
    grads: list[torch.Tensor | None] = []
    with torch.set_grad_enabled(gradients):
        with Shadowing(memory), Unread():
            for name, t in leaves.items():  # a leaf may not be written; a copy with its strides may
                copied = t.clone()
                if not shared and copied.stride() == t.stride():
                    given[name] = copied
            out = call(function, given, scalars)
        returned = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        if gradients:
            wanted = [t for t in returned if t.requires_grad]
            seeds = []
            for i, t in enumerate(wanted):
                seeds.append(torch.ones(t.shape, dtype=t.dtype))
                field.note(seeds[-1], False, FRESH)
                memory.adopt(seeds[-1], field.input(f"gradient {i}", t.numel(), t.dtype).reshape(t.shape))
            with Shadowing(memory):
                grads = (
                    [None] * len(leaves)
                    if not wanted
                    else list(torch.autograd.grad(wanted, list(leaves.values()), seeds, allow_unused=True))
                )
    results: dict[str, Val] = {}

    def note(name: str, t: torch.Tensor) -> None:
        shadow = memory.shadow(t.detach())
        about = field._about[storage_key(t)]
        results[name] = Val(shadow.real, shadow.imag if about.q else None, about.degree, about.bits)

    for i, t in enumerate(returned):
        note(f"result {i}", t)
    for name, t in given.items():
        note(f"argument {name}", t)
    for (name, _), grad in zip(leaves.items(), grads, strict=False):
        if grad is not None:
            note(f"gradient {name}", grad)
        else:
            like = copies[name].detach()
            zero = torch.zeros(like.shape, dtype=torch.float64)
            results[f"gradient {name}"] = Val(zero, zero, NUMBER)
    return _Side(results, field.m)


@dataclass(frozen=True)
class _Way:
    """How trials are run."""

    order: Order = Order.MIXED
    strict: bool = False
    integers: bool = False  # whether integer and boolean arguments are unknown

    def __str__(self) -> str:
        return f"{self.order}{' strict' * self.strict}{' integers' * self.integers}"


@dataclass
class _Trial:
    """What one pair of runs showed: ``compared`` elements by result (None where they differ, and why)."""

    compared: dict[str, torch.Tensor] | None
    reason: str = ""
    error: float = 1.0
    assumptions: frozenset[str] = frozenset()
    positive: bool = False
    ties: bool = False


class _Task:
    """Two programs and what they are given."""

    def __init__(
        self,
        before: Callable[..., Any],
        after: Callable[..., Any],
        tensors: dict[str, torch.Tensor],
        scalars: dict[str, Any],
        gradients: bool,
        seed: int,
    ) -> None:
        self.programs = (before, after)
        self.tensors, self.scalars, self.gradients, self.seed = tensors, scalars, gradients, seed
        self.ran = 0
        #: Numbers that the programs were seen to use.
        self.numbers: set[tuple[float, float]] = set()

    def trial(self, way: _Way, planted: bool = False) -> _Trial:
        seed = salt(self.seed, self.ran, str(way), planted)
        self.ran += 1
        numbers = sorted(self.numbers)[:8] if planted else ()
        left, right = (
            _run(
                f,
                self.tensors,
                self.scalars,
                Field(seed, way.order, way.strict, planted, side, numbers),
                self.gradients,
                way.integers,
            )
            for side, f in enumerate(self.programs)
        )
        used = [left.arithmetic, right.arithmetic]
        self.numbers.update(used[0].numbers, used[1].numbers)
        out = _Trial(
            {},
            assumptions=frozenset(used[0].assumptions | used[1].assumptions),
            positive=any(m.positive for m in used),
            ties=any(m.compared for m in used),
        )
        if left.results.keys() != right.results.keys():
            out.compared, out.reason = None, "another number of results"
            return out
        degree, bits = 0.0, 0.0
        inverted = used[0].inverted + used[1].inverted
        compared: dict[str, torch.Tensor] = {}
        for name, a in left.results.items():
            b = right.results[name]
            if a.shape != b.shape:
                out.compared, out.reason = None, f"{name}: other shape"
                return out
            ok = ~(a.p.isnan() | b.p.isnan())
            apart = ok & (a.p != b.p)
            if a.q is not None and b.q is not None:  # where only the elements modulo q are defined
                logarithmic = ~ok & ~(a.q.isnan() | b.q.isnan())
                ok, apart = ok | logarithmic, apart | (logarithmic & (a.q != b.q))
            if bool(apart.any()):
                out.compared, out.reason = None, f"{name}{apart.nonzero()[0].tolist()} differs"
                return out
            compared[name] = ok
            degree = max(degree, a.degree.plus(b.degree).bound(inverted))
            bits = max(bits, a.bits, b.bits)
        hidden = used[0].hidden + used[1].hidden
        coincide = max(degree, 1.0) * (1 + hidden) / Q
        if coincide > 0.1:
            coincide = min(1.0, (max(degree, 1.0) + hidden) / Q)
            out.assumptions |= {"independent-functions"}
        out.compared, out.error = compared, 1 - 2.0 ** -min(bits, 60.0) * (1 - coincide)
        return out

    def shown(self, way: _Way, trials: int) -> tuple[Fielded, _Trial | None]:
        """Trials one way; the last of them where there was one."""
        counts: dict[str, torch.Tensor] = {}
        attempts, needed = 0, trials
        assumptions: set[str] = set()
        while True:
            try:
                one = self.trial(way)
            except NotModelled as why:
                return Fielded(None, 0, 1.0, (), str(why)), None
            except (RuntimeError, IndexError, ValueError, TypeError, AssertionError, KeyError) as bad:
                return Fielded(None, 0, 1.0, (), f"{type(bad).__name__}: {str(bad).splitlines()[:1]}"), None
            attempts += 1
            assumptions |= one.assumptions
            if one.compared is None:
                return Fielded(False, attempts, 1.0, (), one.reason), one
            for name, ok in one.compared.items():
                counts[name] = counts[name] + ok if name in counts else ok.long()
            wanted = math.ceil(math.log(MAX_ERROR) / math.log(one.error)) if one.error < 1 else MAX_TRIALS + 1
            needed = max(needed, wanted)
            elements = sum(c.numel() for c in counts.values())
            if not elements:
                return Fielded(None, attempts, 1.0, (), "nothing to compare"), one
            seen = [c[c > 0] for c in counts.values()]
            least = min((int(c.min()) for c in seen if c.numel()), default=0)
            missing = elements - sum(c.numel() for c in seen)
            enough = least >= needed and not (way.strict and missing)
            if not enough and attempts >= trials and needed > MAX_TRIALS:
                return Fielded(None, attempts, one.error, (), "too many comparisons for a bound"), one
            late = attempts >= trials and attempts * elements > MAX_COMPARED
            if enough or late or attempts >= (needed if not way.strict else max(40, 4 * needed)):
                break
        if any(2 * int((c > 0).sum()) < c.numel() for c in counts.values()) or (way.strict and missing):
            return Fielded(None, attempts, 1.0, (), f"{missing} of {elements} elements undefined"), one
        if missing:
            assumptions.add("where-defined")
        # Of all attempts, those that counted may be any.
        error = min(1.0, math.comb(attempts, least) * one.error**least)
        if error > MAX_ERROR:
            return Fielded(None, attempts, error, (), f"error bound {error:.2g} after {attempts} trials"), one
        return Fielded(True, attempts, error, tuple(assumptions)), one

    def ties_hold(self, way: _Way) -> bool:
        """Whether nothing differs where most elements are among a few values."""
        elements = sum(t.numel() for t in self.tensors.values())
        trials = min(max(PLANTED_ELEMENTS // max(elements, 1), PLANTED_TRIALS[0]), PLANTED_TRIALS[1])
        try:
            return all(self.trial(way, planted=True).compared is not None for _ in range(trials))
        except NotModelled:
            return False


def _ways(whole: bool) -> list[_Way]:
    orders = [_Way(), _Way(strict=True), _Way(Order.TOTAL), _Way(Order.SIGNED)]
    return [*(replace(w, integers=True) for w in orders if whole), *orders]


def prove_field(
    before: Callable[..., Any],
    after: Callable[..., Any],
    tensors: dict[str, torch.Tensor],
    scalars: dict[str, Any],
    *,
    seed: int = 0,
    trials: int = 3,
    gradients: bool = False,
) -> Fielded:
    """Whether two programs compute the same over the reals for these shapes and scalars.

    Also what they leave in the memory of their arguments, and with ``gradients`` the gradients of
    floating-point arguments for random ones of the results.
    """
    started = time.monotonic()
    task = _Task(before, after, tensors, scalars, gradients, seed)
    floating = any(t.is_floating_point() for t in tensors.values())
    whole = any(not t.is_floating_point() for t in tensors.values())
    truths = any(t.dtype == torch.bool for t in tensors.values())
    reasons: list[str] = []
    verdict: bool | None = None
    positive, compared = False, truths
    for way in _ways(whole):
        if not way.integers and not floating:
            reasons.append("no unknown arguments")
            break
        # Other ways say more only where they treat something differently.
        if (way.strict and not positive) or (way.order is not Order.MIXED and not compared):
            continue
        result, last = task.shown(way, trials)
        if last is not None:
            positive |= last.positive
            compared |= "comparison-as-predicate" in last.assumptions
        if not result.equal:
            verdict = False if result.equal is False else verdict
            reasons.append(f"{way}: {result.reason}")
            compared |= result.equal is None
            continue
        extra = {"reduction-order-free"}
        if whole:
            extra |= set() if way.integers else {"these-integers"}
        if last is not None and last.ties:
            rigorous = way.order is Order.MIXED and task.shown(replace(way, order=Order.TIES), trials)[0].equal
            if not rigorous and not task.ties_hold(way):
                reasons.append(f"{way}: differs at ties")
                verdict = False
                continue
            extra |= set() if rigorous else {"ties-sampled"}
        assumptions = tuple(sorted({*result.assumptions, *extra}))
        return Fielded(True, task.ran, result.error, assumptions, "", time.monotonic() - started)
    return Fielded(verdict, task.ran, 1.0, (), "; ".join(reasons), time.monotonic() - started)
