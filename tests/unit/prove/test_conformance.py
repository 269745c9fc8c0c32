"""The model and eager, operator by operator."""

from __future__ import annotations

import pytest
import torch
from obligations import obligation

from fxmorph.model import Level
from fxmorph.prove.smt import conformance, model_float
from fxmorph.prove.smt.conformance import Conformed, adopt, downgraded
from fxmorph.prove.smt.solver import solve

OPERATORS = """add sub mul div pow sqrt rsqrt sign round maximum minimum amax fmax clamp threshold leaky_relu addcmul
lerp nan_to_num heaviside copysign remainder floor_divide bitwise_left_shift bitwise_right_shift where""".split()


@pytest.fixture(scope="module")
def rows() -> list[Conformed]:
    return conformance.conformance(operators=OPERATORS)


def test_the_model_agrees_with_eager(rows: list[Conformed]) -> None:
    known = conformance.MISMATCHES.get(conformance.release(), frozenset())
    assert [r for r in rows if not r.agrees and (r.operator, r.dtype) not in known] == []
    assert {r.operator for r in rows} == set(OPERATORS)
    assert sum(r.compared for r in rows) > 300_000


def test_casts_between_all_dtypes_agree() -> None:
    casts = conformance.conformance(operators=["cast"])
    assert len(casts) == 90 and all(r.agrees for r in casts)


def test_eager_breaks_ties_by_lane(rows: list[Conformed]) -> None:
    by_lane = {r.operator for r in rows if r.by_lane}
    assert {"maximum", "minimum", "lerp"} <= by_lane and not by_lane & {"add", "mul", "div", "clamp_min", "where"}


def test_what_is_not_modelled_is_noted_and_not_compared(rows: list[Conformed]) -> None:
    noted = {r.operator: r.note for r in rows if r.note}
    assert "uninterpreted" in noted["remainder"]
    assert all(not r.compared for r in rows if r.note)


def test_a_wrong_model_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_float.MEANINGS, "relu", model_float.MEANINGS["abs"])
    found = conformance.conformance(operators=["relu"])
    wrong = [r for r in found if not r.agrees]
    assert {r.dtype for r in wrong} == {"float16", "bfloat16", "float32", "float64"}
    assert all(r.inputs and r.model is not None and "uninterpreted" in r.consequence for r in wrong)


def test_what_differs_is_not_modelled_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "_found", set())
    claim = obligation(lambda x: x - 0.0, lambda x: x.clone(), torch.float32)
    assert solve(claim).level == Level.BIT_EXACT
    adopt([Conformed("sub", "", "float32", False)])
    assert downgraded("sub", torch.float32) and not downgraded("sub", torch.float16)
    assert solve(claim, rlimit=100_000).level == Level.EXACT_REAL


def test_mismatches_of_a_release_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "MISMATCHES", {(conformance.release(), "cpu"): frozenset({("add", "float64")})})
    assert downgraded("add", torch.float64)


def test_where_nothing_was_compared_no_operator_is_modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "MISMATCHES", {})
    assert downgraded("sub", torch.float32, "cuda") and not downgraded("sub", torch.float32)
    claim = obligation(lambda x: x - 0.0, lambda x: x.clone(), torch.float32)
    assert solve(claim, rlimit=100_000, device="cuda").level == Level.EXACT_REAL
