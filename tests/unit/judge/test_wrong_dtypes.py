"""A wrong result is a finding whatever its dtype, of a compiled program and of a pass of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.judge.reference.shadows import Shadows, differ_in_fp64
from fxmorph.model import Kind, Status, ValuePlan
from fxmorph.programs.bits import unequal
from fxmorph.testing import check_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS, "complex32", "complex64", "complex128")
SHAPES = {"1-d": [1.0, 0.0, 3.0, 4.0], "0-d": 1.0}


@pytest.mark.parametrize("plan", [ValuePlan.SEED, ValuePlan.EXACT])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", DTYPES)
def test_a_wrong_value_is_a_finding(name: str, shape: str, plan: ValuePlan, judged: Callable[..., Any]) -> None:
    dtype = getattr(torch, name)

    def off(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.view(-1)[0] = 1 - y.view(-1)[0].round()
        return y.to(dtype)

    (verdict,) = judged(lambda x: x.to(dtype, copy=True), off, [torch.tensor(SHAPES[shape])], plan)
    assert (verdict.status, verdict.kind) == (Status.FINDING, Kind.VALUE)
    assert "1 of" in verdict.reason and "eager" in verdict.reason and "compiled" in verdict.reason


@pytest.mark.parametrize("name", DTYPES)
def test_a_right_value_is_none_and_an_empty_one_neither(name: str, judged: Callable[..., Any]) -> None:
    def cast(x: torch.Tensor) -> torch.Tensor:
        return x.to(getattr(torch, name), copy=True)

    assert judged(cast, lambda x: cast(x.clone()), [torch.rand(9) * 4]) == []
    assert judged(cast, lambda x: cast(x.clone()), [torch.zeros(0, 3)]) == []
    (verdict,) = judged(cast, lambda x: cast(torch.zeros(0, 4)), [torch.zeros(0, 3)])
    assert verdict.kind is Kind.SHAPE


@pytest.mark.parametrize("theirs", DTYPES)
@pytest.mark.parametrize("mine", DTYPES)
def test_another_dtype_is_told_beside_what_is_wrong(mine: str, theirs: str, judged: Callable[..., Any]) -> None:
    if mine == theirs:
        return
    a, b = getattr(torch, mine), getattr(torch, theirs)
    found = judged(lambda x: x.to(a), lambda x: (x + 1).to(b), [torch.tensor([1.0, 0.0, 3.0, 4.0])])
    kinds = {v.kind for v in found if v.status is Status.FINDING}
    assert Kind.DTYPE in kinds and Kind.VALUE in kinds


@pytest.mark.parametrize("name", [n for n in FLOATS if n.startswith("float8")])
def test_eight_bits_round_as_they_may(name: str, judged: Callable[..., Any]) -> None:
    dtype, x = getattr(torch, name), torch.rand(200) + 0.5
    assert judged(lambda x: (x * 1.1 / 1.3).to(dtype), lambda x: (x.double() * 1.1 / 1.3).to(dtype), [x]) == []
    (kept,) = judged(lambda x: (x * 1.1).to(dtype).float(), lambda x: (x.double() * 1.1).float(), [x])
    assert kept.status is Status.EXPECTED
    (read,) = judged(lambda x: x.float() * 1.1, lambda x: x.float() * 1.2, [x.to(dtype)])
    assert read.status is Status.FINDING


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        (torch.tensor([1], dtype=torch.uint8), torch.tensor([1]), False),
        (torch.tensor([255], dtype=torch.uint8), torch.tensor([-1], dtype=torch.int8), True),
        (torch.tensor([2**63], dtype=torch.uint64), torch.tensor([-(2**63)]), True),
        (torch.tensor([2**64 - 1], dtype=torch.uint64), torch.tensor([2**64 - 2], dtype=torch.uint64), True),
        (torch.tensor([7], dtype=torch.uint32), torch.tensor([7], dtype=torch.uint16), False),
        (torch.tensor([16777217]), torch.tensor([16777216.0]), True),
        (torch.tensor([1j]), torch.tensor([0.0]), True),
        (torch.tensor([True]), torch.tensor([1.0]).to(torch.float8_e5m2), False),
    ],
)
def test_numbers_of_any_two_dtypes_are_compared(a: torch.Tensor, b: torch.Tensor, differ: bool) -> None:
    assert unequal(a, b).tolist() == unequal(b, a).tolist() == [differ]


def decided(*values: Any, dtype: torch.dtype, tie: Any = None) -> Shadows:
    t = torch.tensor(values, dtype=dtype)
    ties = t if tie is None else torch.tensor(tie, dtype=dtype)
    return Shadows(t, {"wide": t, "cast": t, "tie:+": ties, "tie:-": t})


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["bool", *INTEGERS])
def test_two_programs_of_decisions_are_compared_in_fp64(name: str, strict: bool) -> None:
    dtype = getattr(torch, name)
    a, b = decided(1, 0, 1, dtype=dtype), decided(1, 1, 1, dtype=dtype)
    assert differ_in_fp64(a, a, strict=strict) is False
    assert differ_in_fp64(a, b, strict=strict) is differ_in_fp64(b, a, strict=strict) is True
    assert differ_in_fp64(decided(1, 0, 1, dtype=dtype, tie=[1, 1, 1]), b, strict=strict) is False
    assert differ_in_fp64(decided(0, dtype=dtype, tie=[1]), decided(1, dtype=dtype), strict=strict) is None


def test_large_integers_that_float64_would_make_equal_differ() -> None:
    a, b = (decided(n, dtype=torch.int64) for n in (2**53, 2**53 + 1))
    assert differ_in_fp64(a, b) is True


def doubles_products(graph: fx.Graph) -> None:
    """Wrong: what is multiplied by 2 is multiplied by 3, and comparisons are turned round."""
    aten = torch.ops.aten
    for node in graph.nodes:
        if node.target is aten.mul.Tensor and node.args[1] == 2:
            node.args = (node.args[0], 3)
        if node.target is aten.gt.Scalar:
            node.target = aten.le.Scalar


SEED = """import torch
def make_inputs(): return [torch.{inputs}]
def fn(x): return {result}
"""


@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        ("arange(1.0, 7.0)", "x > 3"),
        ("ones(())", "x > 3"),
        *[("arange(1.0, 7.0)", f"(x * 2).to(torch.{name})") for name in (*INTEGERS[:5], "float8_e4m3fn", "bfloat16")],
        ("ones(())", "(x * 2).to(torch.float8_e5m2)"),
        ("ones(5, dtype=torch.complex64)", "x * 2"),
        ("arange(1, 7).to(torch.uint8)", "x * 2"),
        ("arange(1, 7)", "(x * 2 > 6)"),
    ],
)
def test_a_pass_that_makes_it_wrong_is_refuted(inputs: str, result: str, tmp_path: Path) -> None:
    (tmp_path / "seed.py").write_text(SEED.format(inputs=inputs, result=result))
    with pytest.raises(AssertionError, match=r"WRONG(.|\n)*value") as error:
        check_pass(doubles_products, tmp_path / "seed.py")
    assert "before" in str(error.value) and "after" in str(error.value)


@pytest.mark.parametrize("result", ["x > 3", "(x * 2).to(torch.uint8)", "(x * 2).to(torch.float8_e5m2)"])
def test_a_pass_on_nothing_is_not(result: str, tmp_path: Path) -> None:
    (tmp_path / "seed.py").write_text(SEED.format(inputs="zeros(0, 3)", result=result))
    # Not on graphs made from it: on those it is wrong.
    assert check_pass(doubles_products, tmp_path / "seed.py", stage="post_grad", seconds=0.0) == 1
