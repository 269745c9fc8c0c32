"""Ties broken by position, in every dtype and shape: what raises there would leave the operator without lanes."""

from __future__ import annotations

import math

import pytest
import torch

from fxmorph.judge.reference.decisions import tie_broken
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.lanes import Lanes
from fxmorph.judge.reference.operator_call import operator_call

aten = torch.ops.aten
G = torch.Generator().manual_seed(0)
DIGITS = torch.randint(0, 3, (5, 6), generator=G)
OPERANDS = {
    "bool": DIGITS > 1,
    "int64": DIGITS,
    "uint8": DIGITS.to(torch.uint8),
    "float32": DIGITS.float(),
    "float16": DIGITS.half(),
    "a vector": DIGITS.float().reshape(-1),
    "rows of one": torch.ones(5, 1),
    "no numbers": torch.tensor([[math.nan, 1, math.inf, math.nan, -math.inf], [0.0, -0.0, 1, 1, 1]]),
}
CALLS = {
    "sort": (aten.sort.default, ()),
    "sort of columns": (aten.sort.default, (0, True)),
    "topk": (aten.topk.default, (1,)),
    "kthvalue": (aten.kthvalue.default, (1,)),
    "median": (aten.median.dim, (0,)),
    "median of all": (aten.median.default, ()),
    "nanmedian": (aten.nanmedian.dim, (-1,)),
    "mode": (aten.mode.default, ()),
}


def takes(name: str, operand: str) -> bool:
    func, more = CALLS[name]
    try:
        func(OPERANDS[operand], *more)
    except RuntimeError:  # there is no such operation on the dtype
        return False
    return True


@pytest.mark.parametrize(("name", "operand"), [(n, o) for n in CALLS for o in OPERANDS if takes(n, o)])
def test_other_equals_are_taken_whose_values_are_the_same(name: str, operand: str) -> None:
    (func, more), x = CALLS[name], OPERANDS[operand]
    call, lanes, gates = operator_call(func, (x, *more), {}), Lanes(0), Gates()
    lanes.start_again(x)
    for lane in lanes:
        of_lane = call.of_lane((lane.shadow(x), *more), {})
        got, own = tie_broken(lanes, lane, of_lane, gates), of_lane.run()
        assert (got is None) == (not lane.tie)
        if got is not None and isinstance(own, tuple):
            dim = more[0] if name in ("sort of columns", "median", "nanmedian") else -1
            values, places = (t if t.ndim == x.ndim else t.unsqueeze(dim) for t in got)
            assert torch.equal(lane.shadow(x).gather(dim, places).nan_to_num(7.0), values.nan_to_num(7.0))
    assert gates.equals >= 1
