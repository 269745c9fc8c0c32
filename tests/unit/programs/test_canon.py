"""Spellings of one operation have one canonical form; different operations do not."""

from __future__ import annotations

import pytest

from fxmorph.programs.canon import Operation, canonical
from fxmorph.programs.graph import calls, read_graph

pytestmark = pytest.mark.usefixtures("torch_quiet")


def operation(line: str) -> Operation:
    """Arguments that are nodes are named, so that graphs can be compared."""
    graph = read_graph(f"def fn(x, y):\n    a = {line}\n    return (a,)\n")
    got = canonical(calls(graph)[-1])
    return Operation(got.name, tuple((k, getattr(v, "name", v)) for k, v in got.arguments))


SAME = [
    ["x + y", "torch.add(x, y)", "x.add(y)", "torch.add(x, other=y)", "torch.ops.aten.add.Tensor(x, y)"],
    ["x * 2", "torch.mul(x, 2)", "torch.multiply(x, 2)", "x.multiply(2)"],
    ["x / y", "torch.true_divide(x, y)", "x.div(y)"],
    ["-x", "torch.neg(x)", "x.negative()"],
    ["~x", "torch.bitwise_not(x)"],
    ["x & y", "torch.bitwise_and(x, y)", "x.__and__(y)"],
    ["x @ y", "torch.matmul(x, y)", "x.matmul(y)"],
    ["x.sum(0)", "torch.sum(x, dim=0)", "torch.sum(x, [0])", "torch.sum(input=x, dim=0, keepdim=False)"],
    ["x.sum(0)", "x.sum(axis=0)"],
    ["x.view(2, 3)", "x.view([2, 3])", "x.view((2, 3))"],
    ["x.permute(1, 0)", "torch.permute(x, [1, 0])"],
    ["x < y", "torch.lt(x, y)", "x.less(y)"],
    ["x.transpose(0, 1)", "torch.swapaxes(x, 0, 1)"],
    ["operator.iadd(x, y)", "x.add_(y)"],
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda s: s[0])
def test_spellings_are_one_operation(spellings: list[str]) -> None:
    assert len({str(operation(s)) for s in spellings}) == 1


DIFFERENT = [
    ("x + y", "y + x"),
    ("x + y", "x.add_(y)"),
    ("x + 1", "x + 2"),
    ("torch.add(x, y)", "torch.add(x, y, alpha=2)"),
    ("x.sum(0)", "x.sum(0, keepdim=True)"),
    ("x / y", "torch.div(x, y, rounding_mode='floor')"),
    ("x[0]", "x[1]"),
    ("x.view(2, 3)", "x.reshape(2, 3)"),
    ("x & y", "torch.logical_and(x, y)"),
]


@pytest.mark.parametrize("pair", DIFFERENT, ids=str)
def test_different_operations_stay_apart(pair: tuple[str, str]) -> None:
    assert operation(pair[0]) != operation(pair[1])
