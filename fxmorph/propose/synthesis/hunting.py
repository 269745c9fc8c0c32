"""Looking for inputs on which a rule is false, beyond what the prover tries.

Both sides run in eager on several hundred sets of arguments: sizes 0, 1, odd, longer than a vector; contiguous,
permuted, gapped and expanded memory; ordinary, extreme and special values; and are compared as exactly as the
rule claims.  A rule that claims real numbers must besides give NaN and Inf in the same places, or it has to say
what it assumes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from fxmorph.inputs import dtype_name
from fxmorph.instances import Instance, relaid, sample_arguments
from fxmorph.judge.numeric import same_bits
from fxmorph.model import FLOATS, Level
from fxmorph.prove.falsify import FLOATING, kinds
from fxmorph.prove.preconditions import PRECONDITIONS, met
from fxmorph.rules import Rule

#: Sizes of a draw and those of ``...``; different from the prover's.
SIZES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 3), (1, 2)), ((5, 7, 9), (2, 3)), ((0, 4), (1, 2)), ((1,), (1,)), ((17, 33, 2), (1, 3)), ((64, 65), (2,)),
    ((0, 1), (0, 1, 3)), ((2, 4, 11), (1, 5)),
)  # fmt: skip
#: Of the largest intermediate value, how far fp64 may be off.
TOLERANCE = 1e-9
#: Kinds of values that are moderate: there real numbers show.
_MODERATE = ("own", "moderate", "integers", "halves")


@dataclass(frozen=True)
class Seen:
    """What one set of arguments showed: ``bits``, ``zero`` (but for its sign), ``real``, ``nonfinite`` (NaN or Inf in
    other places), ``differs`` or ``raises`` (``after`` alone); with the preconditions that the values meet.
    """

    outcome: str
    kind: str
    meets: frozenset[tuple[str, ...]]
    example: str


@dataclass(frozen=True)
class Hunt:
    """All that was seen of a rule for a dtype."""

    seen: tuple[Seen, ...]

    @property
    def tried(self) -> int:
        return len(self.seen)

    def outcomes(self, assumes: tuple[str, ...] = ()) -> set[str]:
        """What was seen where the values meet ``assumes``."""
        return {s.outcome for s in self.seen if not assumes or assumes in s.meets}

    def example(self, outcome: str) -> str:
        return next((s.example for s in self.seen if s.outcome == outcome), "")


def draws(rule: Rule, dtype: str, rounds: int, seed: int) -> Iterator[Instance]:
    """Arguments of a dtype; the same for the same seed."""
    rng = random.Random(f"hunt {rule.id} {dtype} {seed}")
    for n in range(rounds):
        sizes, leading = SIZES[n % len(SIZES)]
        sample = sample_arguments(rule, rng, tries=200, dtypes=(dtype,), sizes=sizes, leading=leading)
        if sample is not None:
            yield relaid(rule, *sample, rng) if n % 3 == 2 else Instance(rule, *sample)


def hunt(rule: Rule, dtype: str, rounds: int = 16, seed: int = 0) -> Hunt:
    """Run both sides on every kind of values of ``rounds`` draws of shapes."""
    free = replace(rule, assumes=(), dtypes=(dtype,), claim=Level.BIT_EXACT)
    seen = []
    for instance in draws(free, dtype, rounds, seed):
        for kind, values in kinds(instance):
            one = _ran(instance, kind, values)
            if one is not None:
                seen.append(one)
    return Hunt(tuple(seen))


def _ran(instance: Instance, kind: str, values: dict[str, torch.Tensor]) -> Seen | None:
    """One set of values; None where ``before`` itself raises."""
    given = instance.with_values(values)
    with torch.no_grad():
        try:
            old = given.before(given.copies())
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        try:
            new = given.after(given.copies())
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            new, outcome = None, f"raises: {str(error).splitlines()[0]}"
    if new is not None:
        outcome = _outcome(given, kind, old, new)
    floats = [t.reshape(-1) for t in values.values() if t.is_floating_point()]
    meets = frozenset(p for p in PRECONDITIONS if all(bool(met(p, [c]).all()) for c in floats))
    example = "" if outcome == "bits" else f"{kind}: " + ", ".join(
        f"{n} {dtype_name(t.dtype)}{list(t.shape)}" + (f" = {t.tolist()}" if t.numel() <= 6 else "")
        for n, t in values.items()
    )  # fmt: skip
    return Seen(outcome.split(":")[0], kind, meets, example)


def _outcome(given: Instance, kind: str, old: torch.Tensor, new: torch.Tensor) -> str:
    if old.shape != new.shape or old.dtype != new.dtype:
        return "differs"
    if same_bits(old, new):
        return "bits"
    if not old.is_floating_point():
        # A comparison of numbers that are computed by rounding may fall either way.
        exact = kind in ("integers", "halves") or not any(t.is_floating_point() for t in given.tensors.values())
        return "differs" if exact else _as_wide(given, kind)
    if same_bits(old + 0.0, new + 0.0):
        return "zero"
    return _as_wide(given, kind)


def _as_wide(given: Instance, kind: str) -> str:
    """The two sides in fp64: whether they are the same real numbers, and NaN and Inf alike."""
    wide = {n: t.double() if t.is_floating_point() else t for n, t in given.tensors.items()}
    with torch.no_grad():
        old, new = given.with_values(wide).before(dict(wide)), given.with_values(wide).after(dict(wide))
    if old.dtype != new.dtype or not old.is_floating_point():
        return "real" if torch.equal(old, new) else "differs"
    if not torch.equal(old.isnan(), new.isnan()) or not torch.equal(old[old.isinf()], new[old.isinf()]):
        return "nonfinite"
    ok = old.isfinite() & new.isfinite()
    if not torch.equal(ok, old.isfinite() | new.isfinite()):
        return "nonfinite"
    if not bool(ok.any()):
        return "real"
    largest = max((float(t[t.isfinite()].abs().max()) for t in wide.values() if t.isfinite().any()), default=0.0)
    scale = max(largest, float(old[ok].abs().max()), 1.0)
    gap = float((old[ok] - new[ok]).abs().max()) / scale
    # Where values are far apart, all digits of a sum may go.
    return "real" if gap <= TOLERANCE or kind not in _MODERATE else "differs"


def claim_of(found: Hunt, assumes: tuple[str, ...] = ()) -> Level | None:
    """The strongest claim that nothing seen contradicts under ``assumes``; None where the rule is false."""
    outcomes = found.outcomes(assumes)
    if not outcomes or outcomes & {"differs", "raises"}:
        return None
    if outcomes <= {"bits"}:
        return Level.BIT_EXACT
    if outcomes <= {"bits", "zero"}:
        return Level.BIT_EXACT_MOD_ZERO_SIGN
    return None if "nonfinite" in outcomes else Level.EXACT_REAL


def weakest_assumption(found: Hunt) -> tuple[str, ...] | None:
    """The first precondition under which a rule that fails without one holds; None where none helps."""
    return next((p for p in PRECONDITIONS if claim_of(found, p) is not None), None)


__all__ = ["FLOATING", "FLOATS", "Hunt", "Seen", "claim_of", "hunt", "weakest_assumption"]
