"""Obligations of pairs of small programs, for tests of what decides them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxmorph.prove.shadow_memory import Memory, Shadowing
from fxmorph.prove.smt.scalars import Obligation
from fxmorph.prove.terms import unfolding
from fxmorph.prove.terms.execution import Terms

Program = Callable[..., torch.Tensor]


def obligations(
    before: Program, after: Program, *dtypes: torch.dtype, shape: tuple[int, ...] = (1,)
) -> list[Obligation]:
    """What is left to show that two programs over arguments of ``shape`` are equal; empty for equal terms."""
    terms = Terms()
    arguments = [torch.ones(shape, dtype=d) for d in dtypes]
    names = [terms.input(f"a{i}", x.numel(), x.dtype) for i, x in enumerate(arguments)]
    results: list[Any] = []
    for program in (before, after):
        memory = Memory(terms)
        copies = [x.clone() for x in arguments]
        for copy, name in zip(copies, names, strict=True):
            memory.adopt(copy, name.reshape(copy.shape))
        with torch.no_grad(), Shadowing(memory):
            out = program(*copies)
        results.append((out, memory.shadow(out).clone()))
    (left, left_names), (_, right_names) = results
    return [d.obligation for d in unfolding.obligations(terms, left_names, right_names, left.dtype)]


def obligation(before: Program, after: Program, *dtypes: torch.dtype) -> Obligation:
    """The only obligation of two programs."""
    (only,) = obligations(before, after, *dtypes)
    return only
