"""Facts about aten's operators: every name in a table is an operator's, and what a call writes is found."""

from __future__ import annotations

import pytest
import torch

from fxmorph.programs.operators import COMPARISONS, EMPTY, MOVES, RUNNING_STATISTICS, operator_name
from fxmorph.torchapi.dispatch import aten_packet, schema_of, written_tensors

aten = torch.ops.aten


@pytest.mark.parametrize("table", [COMPARISONS, EMPTY, MOVES, RUNNING_STATISTICS])
def test_names_are_those_of_aten(table: frozenset[str]) -> None:
    assert not [name for name in table if aten_packet(name) is None]


def test_operators_of_running_statistics_have_them_in_one_place() -> None:
    for name in RUNNING_STATISTICS:
        packet = aten_packet(name)
        assert packet is not None
        names = [a.name for a in schema_of(packet.default).arguments]
        assert names[3:6] == ["running_mean", "running_var", "training"], name


def test_an_operator_goes_by_its_name_without_the_overload() -> None:
    assert operator_name(aten.add_.Tensor) == "add_" and operator_name(aten.add.out) == "add"


def test_what_is_written_is_found_by_position_by_keyword_and_in_lists() -> None:
    x, y = torch.zeros(2), torch.ones(2)
    for call, args, kwargs, written in (
        (aten.add_.Tensor, (x, y), {}, [x]),
        (aten.add.out, (x, y), {"out": y}, [y]),
        (aten._foreach_add_.Scalar, ([x, y], 1), {}, [x, y]),
        (aten.add.Tensor, (x, y), {}, []),
    ):
        found = written_tensors(call, args, kwargs)
        assert [id(t) for t in found] == [id(t) for t in written]
