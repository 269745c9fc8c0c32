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

from fxmorph.model import Level
from fxmorph.programs.bits import same_bits
from fxmorph.programs.inputs import dtype_name
from fxmorph.prove.falsify import kinds
from fxmorph.rewriting.instances import Instance, broken
from fxmorph.rewriting.samples import relaid, sample_arguments
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


#: Outcomes that no claim allows.
WRONG = ("differs", "raises", "nonfinite")


@dataclass(frozen=True)
class Hunt:
    """What was seen of a rule for a dtype: how many sets of arguments were tried, and an example of each outcome.

    Outcomes: ``bits``, ``zero`` (but for its sign), ``real``, ``nonfinite`` (NaN or Inf in other places),
    ``differs``, ``raises`` (``after`` alone).
    """

    tried: int
    examples: dict[str, str]

    @property
    def claim(self) -> Level | None:
        """The strongest claim that nothing seen contradicts; None where the rule is false."""
        outcomes = set(self.examples)
        if not outcomes or outcomes & set(WRONG):
            return None
        if outcomes <= {"bits"}:
            return Level.BIT_EXACT
        return Level.BIT_EXACT_MOD_ZERO_SIGN if outcomes <= {"bits", "zero"} else Level.EXACT_REAL

    @property
    def wrong(self) -> str:
        """An example that contradicts any claim."""
        found = [o for o in WRONG if o in self.examples]
        return f"{found[0]} for {self.examples[found[0]]}" if found else ""


def draws(rule: Rule, dtype: str, rounds: int, seed: int) -> Iterator[Instance]:
    """Arguments of a dtype; the same for the same seed."""
    rng = random.Random(f"hunt {rule.id} {dtype} {seed}")
    for n in range(rounds):
        sizes, leading = SIZES[n % len(SIZES)]
        sample = sample_arguments(rule, rng, tries=200, dtypes=(dtype,), sizes=sizes, leading=leading)
        if sample is not None:
            yield relaid(rule, *sample, rng) if n % 3 == 2 else Instance(rule, *sample)


def hunt(rule: Rule, dtype: str, rounds: int, seed: int = 0) -> Hunt:
    """Run both sides on every kind of values of ``rounds`` draws of shapes, as far as the rule's assumptions go.

    Ends at the first outcome that contradicts any claim.
    """
    only = replace(rule, dtypes=(dtype,))
    tried, examples = 0, dict[str, str]()
    for instance in draws(only, dtype, rounds, seed):
        for kind, values in kinds(instance):
            if broken(rule.assumes, values):
                continue
            given = instance.with_values(values)
            outcome = _ran(given, kind)
            if outcome:
                tried += 1
                if outcome not in examples:
                    examples[outcome] = f"{kind}: {_shown(values)}"
                if outcome in WRONG:
                    return Hunt(tried, examples)
    return Hunt(tried, examples)


def _shown(values: dict[str, torch.Tensor]) -> str:
    return ", ".join(
        f"{n} {dtype_name(t.dtype)}{list(t.shape)}" + (f" = {t.tolist()}" if t.numel() <= 6 else "")
        for n, t in values.items()
    )


def _ran(given: Instance, kind: str) -> str:
    """The outcome of one set of values; "" where ``before`` itself raises."""
    with torch.no_grad():
        try:
            old = given.before(given.copies())
        except (RuntimeError, IndexError, ValueError, TypeError):
            return ""
        try:
            new = given.after(given.copies())
        except (RuntimeError, IndexError, ValueError, TypeError):
            return "raises"
    return _outcome(given, kind, old, new)


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
    """The two sides in fp64: whether they are the same real numbers, and NaN and Inf alike.

    What is computed of integers alone cannot be widened, and has to be the same bits.
    """
    if not any(t.is_floating_point() for t in given.tensors.values()):
        return "differs"
    wide = {n: t.double() if t.is_floating_point() else t for n, t in given.tensors.items()}
    with torch.no_grad():
        old, new = given.with_values(wide).before(dict(wide)), given.with_values(wide).after(dict(wide))
    if old.dtype != new.dtype or not old.is_floating_point():
        return "real" if torch.equal(old, new) else "differs"
    ok = old.isfinite() & new.isfinite()
    if not same_bits(old.masked_fill(ok, 0), new.masked_fill(ok, 0)):
        # Beyond the largest number of the dtype sides may overflow in other places: that is rounding.
        return "real" if kind == "extreme" else "nonfinite"
    if not bool(ok.any()):
        return "real"
    finite = [t[t.isfinite()].double().abs() for t in wide.values()]
    largest = max((float(t.max()) for t in finite if t.numel()), default=0.0)
    scale = max(largest, float(old[ok].abs().max()), 1.0)
    gap = float((old[ok] - new[ok]).abs().max()) / scale
    # Where values are far apart, all digits of a sum may go.
    return "real" if gap <= TOLERANCE or kind not in _MODERATE else "differs"
