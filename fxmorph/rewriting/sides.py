"""Both sides of a rule, run on the same values in eager."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from fxmorph.rewriting.instances import Instance, over_memory
from fxmorph.rewriting.wide_casts import CastsWide
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.storages import storage_key

#: How far two sides that are equal over the reals may differ in fp64, relative to the largest value.
REAL_TOLERANCE = 1e-7
#: Of the largest argument: results below it are compared as if they were this large.
REAL_FLOOR = 1e-6


@dataclass
class Sides:
    """What both sides did with the same values."""

    before: torch.Tensor
    after: torch.Tensor
    left: dict[str, torch.Tensor] = field(default_factory=dict)  # the arguments after ``before``
    right: dict[str, torch.Tensor] = field(default_factory=dict)

    def shares(self, out: torch.Tensor, arguments: dict[str, torch.Tensor]) -> tuple[str, ...]:
        return tuple(n for n, t in arguments.items() if t.numel() and storage_key(t) == storage_key(out))


class DoesNotRun(Exception):
    """A side does not run on these arguments."""


class BeforeRaises(DoesNotRun):
    """The pattern itself does not run on these arguments: there is nothing to rewrite."""


class AfterRaises(DoesNotRun):
    """The replacement raises where the pattern does not, of a rule that does not promise otherwise."""


def both(instance: Instance, values: dict[str, torch.Tensor]) -> Sides:
    """Run both sides; raises :class:`BeforeRaises`, or whatever the replacement raises."""
    given = instance.with_values(values)
    left, right = given.copies(), given.copies()
    with torch.no_grad():
        seed_generators(0)
        try:
            old = given.before(left)
        except Exception as error:
            raise BeforeRaises(str(error)) from error
        seed_generators(0)
        new = given.after(right)
    if instance.rule.site == "late":
        if "mutation" not in instance.rule.preserves:
            right = left
        new = right[next(iter(right))]
        old = left[next(iter(left))]
    return Sides(old, new, left, right)


def real_sides(instance: Instance) -> Sides | None:
    """Both sides in fp64; None where one raises, or where their results are no wide numbers.

    Casts to narrower floats are none in a rule that is not for float64: what they lose there they do not lose in its
    own dtypes.
    """
    floats = [t.dtype for t in instance.tensors.values() if t.is_floating_point()]
    coarsest = max(floats, key=lambda dtype: torch.finfo(dtype).eps, default=None)
    wide = over_memory(instance.tensors, lambda t: t.double() if t.is_floating_point() else t.clone())
    try:
        with nullcontext() if "float64" in instance.rule.dtypes else CastsWide(coarsest):
            sides = both(instance, wide)
    except Exception:
        return None
    wanted = sides.before.dtype in (torch.float64, torch.complex128) and sides.after.dtype == sides.before.dtype
    return sides if wanted else None


def real_gap(instance: Instance, sides: Sides | None = None) -> float | None:
    """Largest difference of the two sides in fp64, relative to the largest value; None where it is not defined.

    Infinite where one side is finite and the other is not.  ``sides``: those of :func:`real_sides`, if they are known.
    """
    sides = sides or real_sides(instance)
    if sides is None:
        return None
    # A result that is zero but for rounding is measured against what it was made of.
    sized = [
        t.double() for t in instance.tensors.values() if t.numel() and t.dtype != torch.bool and not t.is_complex()
    ]
    largest = max((float(t.nan_to_num(0, 0, 0).max()) for t in sized), default=0.0)
    return relative_gap(sides.before, sides.after, REAL_FLOOR * largest)


def relative_gap(a: torch.Tensor, b: torch.Tensor, floor: float = 1e-30) -> float | None:
    """Largest difference over the largest value of ``a``, ``floor`` at least; see :func:`real_gap`."""
    finite = torch.isfinite(a)
    if not a.numel() or a.shape != b.shape:
        return None
    if bool((finite != torch.isfinite(b)).any()):
        return float("inf")
    if not bool(finite.any()):
        return None
    scale = float(a[finite].abs().max())
    return float((a - b)[finite].abs().max()) / max(scale, floor, 1e-30)
