"""Kernels in fp64 against the reference: what constants in float32 explain is allowed, and little more."""

from __future__ import annotations

import pytest
import torch

from fxmorph.judge.fp64_execution import compare_in_fp64, part_of_allowed
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.precision import UNIT
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.model import Status, VerdictCode

VALUES = torch.tensor([0.3, -1.7, 2.5e-4, 120.0], dtype=torch.float64)


def shadows(values: torch.Tensor, dtype: torch.dtype, roundings: float = 1.0) -> Shadows:
    """Lanes around values that so many roundings lead to."""
    lanes = {"wide": values, "cast": values, "tie:+": values, "tie:-": values}
    moved = values * roundings * UNIT[dtype] if dtype in UNIT else torch.zeros_like(values)
    for k in range(4):
        lanes[f"wide:{k}"] = values + (moved if k % 2 else -moved)
    return Shadows(values.to(dtype), lanes)


def judged(executed: torch.Tensor, reference: Shadows | None, gates: Gates | None = None) -> Status:
    return compare_in_fp64(executed, reference, gates or Gates()).status


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_constant_in_float32_is_no_fault_and_one_in_16_bits_is(dtype: torch.dtype) -> None:
    assert judged(VALUES * (1 + 2.0**-25), shadows(VALUES, dtype)) is Status.CLEAN
    found = compare_in_fp64(VALUES * (1 + 2.0**-12), shadows(VALUES, dtype), Gates())
    assert (found.status, found.code) == (Status.FINDING, VerdictCode.IN_FP64)


def test_what_many_roundings_move_constants_move_too() -> None:
    assert judged(VALUES * (1 + 2.0**-16), shadows(VALUES, torch.float32, roundings=500)) is Status.CLEAN
    assert judged(VALUES * (1 + 2.0**-16), shadows(VALUES, torch.float32)) is Status.FINDING


def test_no_number_where_all_lanes_have_one_is_a_fault() -> None:
    reference = shadows(VALUES, torch.bfloat16)
    executed = VALUES.clone()
    executed[1] = torch.nan
    assert judged(executed, reference) is Status.FINDING
    reference.lanes["wide:2"] = executed
    assert judged(executed, reference) is Status.CLEAN


def test_a_decision_on_which_all_lanes_agree_is_held_against_kernels() -> None:
    places = torch.tensor([3, 1, 0])
    reference = shadows(places, torch.int64)
    assert judged(torch.tensor([3, 1, 0]), reference) is Status.CLEAN
    assert judged(torch.tensor([3, 2, 0]), reference) is Status.FINDING
    reference.lanes["tie:+"] = torch.tensor([3, 2, 0])
    assert judged(torch.tensor([3, 2, 0]), reference) is Status.CLEAN


def test_complex_numbers_are_judged_by_their_parts() -> None:
    values = torch.complex(VALUES, VALUES.flip(0))
    reference = shadows(values, torch.complex64)
    assert part_of_allowed(values, reference).shape == values.shape
    assert judged(values, reference) is Status.CLEAN
    assert judged(torch.complex(VALUES, VALUES.flip(0) * 1.001), reference) is Status.FINDING


@pytest.mark.parametrize(
    ("reference", "gates"),
    [
        (shadows(VALUES, torch.float64), Gates()),
        (Shadows(VALUES.float(), {}), Gates()),
        (None, Gates()),
        (shadows(VALUES, torch.float32), Gates(bit_cast=True)),
        (shadows(VALUES, torch.float32), Gates(random_values=True)),
    ],
)
def test_where_the_reference_says_nothing_neither_do_kernels(reference: Shadows | None, gates: Gates) -> None:
    assert judged(VALUES * 2, reference, gates) is Status.CLEAN
