"""Differences that the author of a pass allows."""

from __future__ import annotations

import torch
from torch import fx

from fxmorph.programs.inputs import InputSet
from fxmorph.programs.interpreter import program
from fxmorph.torchapi.dispatch import tensors_of


def within(before: fx.GraphModule, after: fx.GraphModule, values: InputSet, rtol: float) -> bool:
    """Whether results differ by no more than ``rtol`` of the largest value of each; float tensors only."""
    with torch.no_grad():
        old, new = (tensors_of(program(gm)(*values.rebuild())) for gm in (before, after))
    return len(old) == len(new) and all(_near(a, b, rtol) for a, b in zip(old, new, strict=True))


def _near(a: torch.Tensor, b: torch.Tensor, rtol: float) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point() or not a.numel():
        return a.shape == b.shape and torch.equal(a, b)
    wide, other = a.double(), b.double()
    finite = wide.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return False
    largest = wide[finite].abs().max() if finite.any() else torch.tensor(0.0)
    return bool(((wide - other)[finite].abs() <= rtol * largest).all())
