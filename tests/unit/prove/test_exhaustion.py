"""All values of small obligations."""

from __future__ import annotations

import pytest
import torch
from obligations import obligation

from fxmorph.model import Level
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.exhaustion import COUNTS, combinations, exhaust, values_of
from fxmorph.prove.smt.solver import replay

SIXTEEN = [torch.float16, torch.bfloat16]
zeros = torch.zeros_like


@pytest.mark.parametrize("dtype", COUNTS, ids=str)
def test_every_value_is_there_once(dtype: torch.dtype) -> None:
    values = values_of(dtype)
    assert len(values) == COUNTS[dtype] and values.dtype == dtype
    if not dtype.is_floating_point:
        assert len(values.unique()) == len(values)


@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
@pytest.mark.parametrize(
    ("before", "after", "level", "assumptions"),
    [
        (lambda x: x + (-0.0), lambda x: x.clone(), Level.BIT_EXACT, set()),
        (lambda x: x + 0.0, lambda x: x.clone(), Level.BIT_EXACT_MOD_ZERO_SIGN, set()),
        (lambda x: x - x, zeros, Level.UNDER_PRECONDITION, {"finite"}),
        (lambda x: x * 0.0, zeros, Level.UNDER_PRECONDITION, {"finite", "mod_zero_sign"}),
        (lambda x: x / x, torch.ones_like, Level.UNDER_PRECONDITION, {"finite", "nonzero"}),
        # No model is needed, and none at bit level shows these.
        (lambda x: x / 3.0, lambda x: x * (1 / 3), Level.BIT_EXACT, set()),
        (lambda x: x.relu(), lambda x: torch.maximum(x, zeros(x)), Level.BIT_EXACT_MOD_ZERO_SIGN, set()),
        (lambda x: 1 / (1 / x), lambda x: x.clone(), Level.UNKNOWN, set()),
    ],
)
def test_levels_of_one_16_bit_variable(before, after, level, assumptions, dtype) -> None:  # type: ignore[no-untyped-def]
    claim = obligation(before, after, dtype)
    found = exhaust(claim)
    assert found.level == level and assumptions <= set(found.assumptions)
    assert found.combinations == 65536
    if level != Level.BIT_EXACT:
        assert found.counterexample is not None and replay(claim, found.counterexample)


def test_two_bytes_and_division_by_zero() -> None:
    claim = obligation(
        torch.remainder, lambda x, y: x - torch.div(x, y, rounding_mode="floor") * y, torch.int8, torch.int8
    )
    found = exhaust(claim)
    assert (found.level, found.assumptions) == (Level.BIT_EXACT, ("int_denom!=0",))
    lopsided = obligation(
        lambda x, y: torch.div(x & 0, y, rounding_mode="floor"), lambda x, y: x & 0, torch.int8, torch.int8
    )
    assert exhaust(lopsided).level == Level.UNDER_PRECONDITION


def test_a_wrong_shift_is_found() -> None:
    claim = obligation(lambda x: torch.div(x, 4, rounding_mode="trunc"), lambda x: x >> 2, torch.int8)
    found = exhaust(claim)
    assert found.level == Level.UNDER_PRECONDITION and "nonneg" in found.assumptions
    assert found.counterexample is not None and replay(claim, found.counterexample)


def test_rounding_that_depends_on_the_lane_is_no_proof() -> None:
    found = exhaust(obligation(lambda x: x.rsqrt() * 1.0, lambda x: x.rsqrt(), torch.bfloat16))
    assert found.level == Level.UNKNOWN and "lane" in found.reason


def test_mixed_small_dtypes() -> None:
    claim = obligation(lambda x, c: torch.where(c, x, x), lambda x, c: x.clone(), torch.int8, torch.bool)
    assert combinations(claim) == 512 and exhaust(claim).level == Level.BIT_EXACT


def test_too_many_values_are_refused() -> None:
    wide = obligation(lambda x: x + 0.0, lambda x: x.clone(), torch.float32)
    assert combinations(wide) is None
    two = obligation(lambda x, y: x - y, lambda x, y: x + (-y), torch.float16, torch.float16)
    with pytest.raises(NotModelled):
        exhaust(two)
