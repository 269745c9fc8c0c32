"""Random pairs of small expressions: what z3 shows of them against all their values in eager."""

from __future__ import annotations

import random

import pytest
import torch

from fxmorph.model import Level
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.exhaustion import exhaust
from fxmorph.prove.smt.scalars import Const, Expression, Obligation, Op, Slot, Var
from fxmorph.prove.smt.solver import LEVELS, replay, solve

ORDER = list(Level)
CASES = 14
UNARY = "neg abs relu sign square".split()
FLOAT_UNARY = [*UNARY, *"floor trunc round reciprocal sqrt nan_to_num".split()]
BINARY = "add sub mul maximum minimum".split()
FLOAT_BINARY = [*BINARY, "div", "copysign", "fmax"]
INT_BINARY = [*BINARY, *"remainder fmod floor_divide bitwise_xor bitwise_left_shift bitwise_right_shift".split()]
SCALARS = {True: (0.1, 3.0, -1.0, 0.5, 1 / 3, 0.0, -0.0), False: (0, 1, 2, 3, 5, 7)}


def grown(rng: random.Random, depth: int, dtype: torch.dtype, variables: int) -> Expression:
    floating = dtype.is_floating_point
    if not depth or rng.random() < 0.15:
        if rng.random() < 0.8:
            return Var(rng.randrange(variables), dtype)
        return Const(rng.choice(SCALARS[floating]), dtype)

    def applied(name: str, result: torch.dtype = dtype, count: int = 1, **scalars: object) -> Op:
        given = {"self": Slot(0), **({"other": Slot(1)} if count == 2 else {}), **scalars}
        operands = tuple(grown(rng, depth - 1, dtype, variables) for _ in range(count))
        return Op(name, tuple(sorted(given.items())), result, operands)

    kind = rng.random()
    if kind < 0.15:
        test = applied(rng.choice("lt le gt ge eq ne".split()), torch.bool, 2)
        sides = tuple(grown(rng, depth - 1, dtype, variables) for _ in range(2))
        arguments = (("condition", Slot(0)), ("other", Slot(2)), ("self", Slot(1)))
        return Op("where", arguments, dtype, (test, *sides))
    if kind < 0.25:
        there = applied("cast", rng.choice([torch.float16, torch.float32, torch.int8, torch.int32]))
        return Op("cast", (("self", Slot(0)),), dtype, (there,))
    if kind < 0.5:
        return applied(rng.choice(FLOAT_UNARY if floating else [*UNARY, "bitwise_not"]))
    if kind < 0.65:
        return applied(rng.choice("add sub mul".split()), other=rng.choice(SCALARS[floating]))
    return applied(rng.choice(FLOAT_BINARY if floating else INT_BINARY), count=2)


#: Its expressions are modelled as those of float16 are.
SLOW = pytest.param(torch.bfloat16, 1, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("dtype", "variables"),
    [(torch.int8, 2), (torch.uint8, 2), (torch.int16, 1), (torch.float16, 1), SLOW],
)
def test_the_solver_claims_no_more_than_all_values_show(dtype: torch.dtype, variables: int) -> None:
    rng = random.Random(str(dtype))
    decided = 0
    for _ in range(CASES):
        sides = [grown(rng, 2, dtype, variables) for _ in range(2)]
        claim = Obligation(sides[0], sides[1], (dtype,) * variables, (True,) * variables)
        try:
            every = exhaust(claim)
        except NotModelled:
            continue
        solved = solve(claim, rlimit=200_000, want=LEVELS[:3])
        if "lane" not in every.reason:
            assert ORDER.index(solved.level) >= ORDER.index(every.level), claim.text
        first = next((q for q in solved.queries if q.values is not None), None)
        if first is not None and "uf_" not in first.smt and "choice_" not in first.smt:
            assert first.values is not None and replay(claim, first.values), claim.text
            decided += 1
    assert decided > 4
