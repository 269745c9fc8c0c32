"""Whether the two sides of a rule agree on the values of a site as exactly as the rule claims."""

from __future__ import annotations

import random

import torch

from fxmorph.model import Level, Rewrite
from fxmorph.programs.bits import same_bits
from fxmorph.programs.inputs import dtype_name
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.samples import sample_values
from fxmorph.rewriting.sides import REAL_TOLERANCE, real_gap


class Inapplicable(Exception):
    """The rewrite cannot be applied here (no such site, or it would not be safe)."""


class Unsound(Exception):
    """The two sides of a rule differ on real values where its claim says they cannot.

    A rule that says so (``preserves`` has ``raises``) may not raise where the pattern does not either.
    """

    def __init__(self, rewrite: Rewrite, what: str) -> None:
        super().__init__(f"{rewrite}: {what}")
        self.rewrite = rewrite


def check_claim(rewrite: Rewrite, instance: Instance, old: torch.Tensor, new: torch.Tensor) -> None:
    """Compare both sides on the site's values as exactly as the rule claims; raises :class:`Unsound`."""
    rule = instance.rule
    if new.shape != old.shape:
        raise Unsound(rewrite, f"shape {tuple(old.shape)} becomes {tuple(new.shape)}")
    if new.dtype != old.dtype:
        if "dtype" in rule.preserves:
            raise Unsound(rewrite, f"dtype {dtype_name(old.dtype)} becomes {dtype_name(new.dtype)}")
        raise Inapplicable(f"{rule.id} changes the dtype here")
    old, new = old.detach(), new.detach()
    if same_bits(old, new):
        return
    if rule.claim in (Level.INDEX_EXACT, Level.BIT_EXACT):
        raise Unsound(rewrite, "bits differ")
    if not old.is_floating_point() and not old.is_complex():
        raise Unsound(rewrite, "integers differ")
    if rule.claim in (Level.BIT_EXACT_MOD_ZERO_SIGN, Level.UNDER_PRECONDITION) and same_bits(old + 0.0, new + 0.0):
        return
    if rule.claim is Level.BIT_EXACT_MOD_ZERO_SIGN:
        raise Unsound(rewrite, "values differ by more than the sign of zero")
    if bool((torch.isfinite(old) != torch.isfinite(new)).any()):
        raise Inapplicable(f"{rule.id}: one side overflows on these values")
    gap = real_gap(instance)
    if gap is None or gap == float("inf"):
        raise Inapplicable(f"{rule.id}: cannot be compared in fp64 here")
    if gap <= REAL_TOLERANCE:
        return
    # Equal over the reals and yet apart: is it these values (cancellation, -1e38 masks) or the rule?
    rng = random.Random(f"benign {rewrite}")
    benign = {
        n: sample_values(list(t.shape), torch.float64, rng) if t.is_floating_point() else t
        for n, t in instance.tensors.items()
    }
    gap = real_gap(instance.with_values(benign))
    if gap is None or gap <= REAL_TOLERANCE or gap == float("inf"):
        raise Inapplicable(f"{rule.id}: ill-conditioned on these values")
    raise Unsound(rewrite, f"in fp64 the sides differ by {gap:.3g} of the largest value")
