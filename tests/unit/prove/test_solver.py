"""The ladder: which level z3 shows of which rewrite, and that nothing more is claimed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import z3
from obligations import obligation

from fxmorph.model import Level
from fxmorph.prove.smt.eager_scalars import Traps, evaluate
from fxmorph.prove.smt.scalars import Obligation, Op, Var
from fxmorph.prove.smt.second_opinion import DECLINED, NAMES, TIMED_OUT, SolverMissing, second_opinion
from fxmorph.prove.smt.solver import Query, Solved, meets, replay, solve

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
EXACT, MODULO, UNDER = Level.BIT_EXACT, Level.BIT_EXACT_MOD_ZERO_SIGN, Level.UNDER_PRECONDITION
REAL, UNKNOWN = Level.EXACT_REAL, Level.UNKNOWN
Program = Callable[..., torch.Tensor]
zeros, ones = torch.zeros_like, torch.ones_like

FLOATING: dict[str, tuple[Program, Program, Level, set[str]]] = {
    "x+(-0.0)": (lambda x: x + (-0.0), lambda x: x.clone(), EXACT, set()),
    "x-0": (lambda x: x - 0.0, lambda x: x.clone(), EXACT, set()),
    "x*1": (lambda x: x * 1.0, lambda x: x.clone(), EXACT, set()),
    "x*2": (lambda x: x * 2.0, lambda x: x + x, EXACT, set()),
    "x/2": (lambda x: x / 2.0, lambda x: x * 0.5, EXACT, set()),
    "x*-1": (lambda x: x * -1.0, lambda x: -x, EXACT, set()),
    "x-y": (lambda x, y: x - y, lambda x, y: x + (-y), EXACT, set()),
    "(-x)*y": (lambda x, y: (-x) * y, lambda x, y: -(x * y), EXACT, set()),
    "relu where <": (lambda x: x.relu(), lambda x: torch.where(x < 0, zeros(x), x), EXACT, set()),
    "relu clamp": (lambda x: x.relu(), lambda x: x.clamp(min=0.0), EXACT, set()),
    "clamp clamp": (lambda x: x.clamp(-1, 1).clamp(-2, 2), lambda x: x.clamp(-1, 1), EXACT, set()),
    "x>y": (lambda x, y: x > y, lambda x, y: y < x, EXACT, set()),
    "x**2": (lambda x: x**2, lambda x: x * x, EXACT, set()),
    "x**1": (lambda x: x**1, lambda x: x.clone(), EXACT, set()),
    "erf": (lambda x: (x + (-0.0)).erf(), lambda x: x.erf(), EXACT, {"UF:erf"}),
    "x+0": (lambda x: x + 0.0, lambda x: x.clone(), MODULO, set()),
    "0-x": (lambda x: 0.0 - x, lambda x: -x, MODULO, set()),
    "-(x-y)": (lambda x, y: -(x - y), lambda x, y: y - x, MODULO, set()),
    "abs where": (lambda x: x.abs(), lambda x: torch.where(x < 0, -x, x), MODULO, set()),
    "relu max": (lambda x: x.relu(), lambda x: torch.maximum(x, zeros(x)), MODULO, {"max-tie-free-choice"}),
    "max max": (torch.maximum, lambda x, y: torch.maximum(y, x), MODULO, {"max-tie-free-choice"}),
    "x-x": (lambda x: x - x, zeros, UNDER, {"finite"}),
    "x*0": (lambda x: x * 0.0, zeros, UNDER, {"finite", "mod_zero_sign"}),
    "not <=": (lambda x, y: x > y, lambda x, y: torch.logical_not(x <= y), UNDER, {"no_nan"}),
    "swapped where": (
        lambda x, y: torch.where(x > y, x, y), lambda x, y: torch.where(x <= y, y, x), UNDER, {"no_nan"},
    ),
    "relu where >": (
        lambda x: x.relu(), lambda x: torch.where(x > 0, x, zeros(x)), UNDER, {"no_nan", "mod_zero_sign"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("name", FLOATING)
def test_levels_of_floating_point_rewrites(name: str, dtype: torch.dtype) -> None:
    before, after, level, assumptions = FLOATING[name]
    arity = before.__code__.co_argcount if hasattr(before, "__code__") else 2
    claim = obligation(before, after, *[dtype] * arity)
    solved = solve(claim, rlimit=1_000_000)
    assert solved.level == level
    assert assumptions <= set(solved.assumptions)
    assert "nan-payload-ignored" in solved.assumptions and solved.method == "Z3-FP"
    assert solved.queries[-1].result == "unsat"


REALS: dict[str, tuple[Program, Program, set[str]]] = {
    "associative": (lambda x, y, z: x + y + z, lambda x, y, z: x + (y + z), set()),
    "distributive": (lambda x, y, z: x * (y + z), lambda x, y, z: x * y + x * z, set()),
    "x/y": (lambda x, y: x / y, lambda x, y: x * (1 / y), {"denom!=0"}),
    "sqrt": (lambda x: (x * x).sqrt(), lambda x: x.abs(), set()),
    "sqrt twice": (lambda x: x.sqrt() * x.sqrt(), lambda x: x.clone(), {"root-argument>=0"}),
    "x/3": (lambda x: x / 3.0, lambda x: x * (1 / 3), {"constants-rounded"}),
    "exp": (lambda x, y: (x + y).exp(), lambda x, y: x.exp() * y.exp(), {"UF:exp"}),
    "log exp": (lambda x: x.exp().log(), lambda x: x.clone(), {"UF:exp"}),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + (-x).exp()), {"UF:exp"}),
    "silu": (torch.nn.functional.silu, lambda x: x * x.sigmoid(), {"UF:exp"}),
}


@pytest.mark.parametrize("name", REALS)
def test_levels_over_the_reals(name: str) -> None:
    before, after, assumptions = REALS[name]
    arity = before.__code__.co_argcount if name != "silu" else 1
    solved = solve(obligation(before, after, *[F32] * arity), rlimit=1_000_000, want=[REAL])
    assert (solved.level, solved.method) == (REAL, "Z3-REAL")
    assert assumptions <= set(solved.assumptions)
    assert all(q.mode.startswith("reals") for q in solved.queries)


@pytest.mark.parametrize("numbers", [(3.0, 1 / 3), (0.1, 10.0)])
def test_division_is_not_multiplication_at_fp32(numbers: tuple[float, float]) -> None:
    divisor, factor = numbers
    claim = obligation(lambda x: x / divisor, lambda x: x * factor, F32)
    solved = solve(claim, want=[EXACT, MODULO, UNDER])
    assert solved.level == UNKNOWN and solved.counterexample is not None
    assert replay(claim, solved.counterexample, modulo_zero_sign=True)


INTEGERS: dict[str, tuple[Program, Program, Level, set[str]]] = {
    "x*8": (lambda x: x * 8, lambda x: x << 3, EXACT, set()),
    "x//4": (lambda x: torch.div(x, 4, rounding_mode="floor"), lambda x: x >> 2, EXACT, set()),
    "x%4": (lambda x: torch.remainder(x, 4), lambda x: x & 3, EXACT, set()),
    "trunc is no shift": (lambda x: torch.div(x, 4, rounding_mode="trunc"), lambda x: x >> 2, UNDER, {"nonneg"}),
    "fmod is no mask": (lambda x: torch.fmod(x, 4), lambda x: x & 3, UNDER, {"nonneg"}),
    "x+1>x": (lambda x: (x + 1) > x, lambda x: ones(x, dtype=torch.bool), UNKNOWN, set()),
    "x%y": (
        torch.remainder, lambda x, y: x - torch.div(x, y, rounding_mode="floor") * y, EXACT, {"int_denom!=0"},
    ),
    "(x*y)/y": (lambda x, y: torch.div(x * y, y, rounding_mode="floor"), lambda x, y: x.clone(), UNKNOWN, set()),
    "average": (lambda x, y: (x + y) >> 1, lambda x, y: (x & y) + ((x ^ y) >> 1), UNKNOWN, set()),
    "xor": (lambda x, y: x ^ y, lambda x, y: (x | y) - (x & y), EXACT, set()),
    "distributive": (lambda x, y: x * (x + y), lambda x, y: x * x + x * y, EXACT, set()),
}  # fmt: skip


#: What takes the solver long, and is there in 8 and 32 bits.
SLOW = ("(x*y)/y", torch.int64)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name}-{dtype}", marks=pytest.mark.slow if (name, dtype) == SLOW else ())
        for name in INTEGERS
        for dtype in (torch.int8, torch.int32, torch.int64)
    ],
)
def test_levels_of_integer_rewrites(name: str, dtype: torch.dtype) -> None:
    before, after, level, assumptions = INTEGERS[name]
    arity = before.__code__.co_argcount if hasattr(before, "__code__") else 2
    claim = obligation(before, after, *[dtype] * arity)
    solved = solve(claim)
    assert solved.level == level and assumptions <= set(solved.assumptions)
    if level in (UNDER, UNKNOWN):
        assert solved.counterexample is not None and replay(claim, solved.counterexample)


def test_unsigned_bytes_are_not_signed() -> None:
    claim = obligation(lambda x, y: (x - y) < 0, lambda x, y: x < y, torch.uint8, torch.uint8)
    solved = solve(claim)
    assert solved.level == UNKNOWN
    assert solved.counterexample is not None and replay(claim, solved.counterexample)


def through(*dtypes: torch.dtype) -> Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        for dtype in dtypes:
            x = x.to(dtype)
        return x.clone() if not dtypes else x

    return program


CASTS: list[tuple[torch.dtype, Program, Program, Level]] = [
    (F16, through(F32, F16), through(), EXACT),
    (BF16, through(F32, BF16), through(), EXACT),
    (torch.int8, through(F16, torch.int8), through(), EXACT),
    # Eager itself rounds float64 to float32 before it rounds to 16 bits.
    (F64, through(F32, F16), through(F16), EXACT),
    (F32, through(F16, F32), through(), REAL),
    (F32, through(BF16, F16), through(F16), REAL),
    (torch.int32, through(F32, torch.int32), through(), UNKNOWN),
    (torch.int16, through(F16, torch.int16), through(), UNKNOWN),
]


@pytest.mark.parametrize("case", CASTS)
def test_levels_of_casts(case: tuple[torch.dtype, Program, Program, Level]) -> None:
    source, before, after, level = case
    claim = obligation(before, after, source)
    solved = solve(claim)
    assert solved.level == level
    if level != EXACT:
        assert solved.counterexample is not None and replay(claim, solved.counterexample)


def test_double_rounding_is_refuted() -> None:
    claim = obligation(
        lambda x, y: (x.float() + y.float()).half(), lambda x, y: (x.double() + y.double()).half(), F32, F32
    )
    assert solve(obligation(through(BF16, F16), through(F16), F32), want=[EXACT]).level == UNKNOWN
    assert solve(claim, rlimit=200_000, want=[EXACT]).level == UNKNOWN


def test_steps_that_are_not_wanted_are_skipped() -> None:
    claim = obligation(lambda x: x * 0.0, zeros, F32)
    solved = solve(claim, want=[UNDER], falsified=[(float("nan"),), (-1.0,), (float("inf"),)])
    assert solved.level == UNDER and [q.mode for q in solved.queries] == ["bits modulo zero sign | finite"]
    assert solve(claim, want=[]).queries == ()


def test_the_limit_gives_unknown_and_is_the_same_every_time() -> None:
    claim = obligation(lambda x, y: x * y / y, lambda x, y: x.clone(), F32, F32)
    first, second = (solve(claim, rlimit=20_000, want=[EXACT]) for _ in range(2))
    assert first.level == UNKNOWN and first.queries[0].result == "unknown"
    assert first.queries == second.queries


def test_cut_variables_make_a_counterexample_inconclusive() -> None:
    whole = obligation(lambda x: x + 0.0, lambda x: x.clone(), F32)
    cut = Obligation(whole.left, whole.right, whole.variables, (False,))
    assert solve(whole).conclusive and not solve(cut).conclusive


def test_a_claim_under_contradictory_conditions_is_no_claim() -> None:
    claim = obligation(lambda x, y: x / (y - y), lambda x, y: (x + 1) / (y - y), F32, F32)
    assert solve(claim, want=[REAL]).level == UNKNOWN


def test_a_uf_in_the_way_is_no_proof() -> None:
    assert solve(obligation(lambda x: x.erf(), lambda x: 1 - x.erfc(), F32), rlimit=300_000).level == UNKNOWN


def test_different_dtypes_are_unknown() -> None:
    claim = Obligation(Var(0, F32), Op("cast", (), F64, (Var(0, F32),)), (F32,), (True,))
    assert solve(claim).reason == "sides of different dtypes"


def test_replay_does_not_divide_the_least_integer_by_minus_one() -> None:
    claim = obligation(lambda x: torch.div(x, -1, rounding_mode="trunc"), lambda x: -x, torch.int32)
    least = torch.iinfo(torch.int32).min
    with pytest.raises(Traps):
        evaluate(claim.left, [torch.tensor([least], dtype=torch.int32)])
    assert not replay(claim, (least,))
    solved = solve(claim)
    assert solved.level == UNDER and "int_quotient_fits" in solved.assumptions


def test_replay_compares_modulo_the_sign_of_zero_and_relatively() -> None:
    claim = obligation(lambda x: x + 0.0, lambda x: x.clone(), F32)
    assert replay(claim, (-0.0,)) and not replay(claim, (-0.0,), modulo_zero_sign=True)
    third = obligation(lambda x: x / 0.1, lambda x: x * 10.0, F32)
    value = solve(third, want=[EXACT]).counterexample
    assert value is not None and replay(third, value) and not replay(third, value, relative=1e-3)
    with pytest.raises(ValueError, match="values"):
        replay(claim, ())


def test_values_meet_preconditions() -> None:
    claim = obligation(lambda x: x + 0.0, lambda x: x.clone(), F32)
    assert meets((1.0,), ("finite", "nonneg", "nonzero"), claim)
    assert not meets((float("inf"),), ("finite",), claim) and meets((float("inf"),), ("no_nan",), claim)


def test_results_are_values() -> None:
    solved = solve(obligation(lambda x: x + 0.0, lambda x: x.clone(), F32))
    assert pickle.loads(pickle.dumps(solved)) == solved
    assert isinstance(solved, Solved) and all(isinstance(q, Query) for q in solved.queries)


def test_texts_are_queries_that_z3_answers_alike() -> None:
    solved = solve(obligation(lambda x: x * 0.0, zeros, F32))
    for query in solved.queries:
        solver = z3.Solver()
        solver.from_string(query.smt)
        assert str(solver.check()) == query.result


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [F32, F16, torch.int8], ids=str)
def test_second_opinions_agree(name: Any, dtype: torch.dtype) -> None:
    pytest.importorskip(name)
    claim = (
        obligation(lambda x: x * 8, lambda x: x << 3, dtype)
        if dtype == torch.int8
        else obligation(lambda x: x * 0.0, zeros, dtype)
    )
    solved = solve(claim)
    for query in solved.queries:
        assert second_opinion(query.smt, name).said == query.result


def test_a_missing_second_solver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cvc5", None)
    with pytest.raises(SolverMissing, match="pip install"):
        second_opinion("(check-sat)", "cvc5")


def test_what_is_no_verdict_says_why() -> None:
    assert second_opinion("(declare-sort", "z3").said == DECLINED
    hard = "(declare-const x Int)(declare-const y Int)(assert (and (> x 3) (> y 3) (= (* x y) 1000000016000000063)))"
    assert second_opinion(f"{hard}(check-sat)", "z3", limit_ms=60).said == TIMED_OUT
