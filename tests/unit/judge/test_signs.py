"""Signs that perturbed lanes take: one draw for all of them, the same whenever it is asked for."""

from __future__ import annotations

import pytest
import torch

from fxmorph.judge.reference import signs
from fxmorph.judge.reference.signs import SIGNS, SPAN, SPREAD, Signs

CPU = torch.device("cpu")
SHAPE = torch.Size([50, 3])


def test_a_draw_hangs_on_seed_and_rounding_alone() -> None:
    first, second, other = Signs(3), Signs(3), Signs(4)
    drawn = [first.of(0, rounding, SHAPE, CPU) for rounding in range(3 * signs.KEPT)]
    assert all(set(t.unique().tolist()) == {-1.0, 1.0} for t in drawn)
    for rounding in reversed(range(3 * signs.KEPT)):  # what was dropped is drawn again
        assert torch.equal(first.of(0, rounding, SHAPE, CPU), drawn[rounding])
        assert torch.equal(second.of(0, rounding, SHAPE, CPU), drawn[rounding])
    assert not torch.equal(other.of(0, 0, SHAPE, CPU), drawn[0]) and not torch.equal(drawn[0], drawn[SPAN])


def test_lanes_differ_by_their_rows() -> None:
    draw = Signs(5)
    lanes = torch.stack([draw.of(row, SPAN - 1, SHAPE, CPU) for row in range(2 * SPREAD)], -1).reshape(-1, 2 * SPREAD)
    columns = torch.tensor(SIGNS, dtype=torch.float64).T
    agree = (lanes @ columns.T).abs() == 2 * SPREAD  # with one of the columns, up to its sign
    assert bool((agree.sum(-1) == 1).all())


@pytest.mark.parametrize("elements", [1, 10_000])
def test_large_draws_are_not_kept(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "ELEMENTS", 1000)
    draw = Signs(0)
    for rounding in range(20):
        draw.of(0, rounding, torch.Size([elements]), CPU)
    assert len(draw._places) == (signs.KEPT if elements == 1 else 1)
