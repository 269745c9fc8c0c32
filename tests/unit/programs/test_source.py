"""Inputs as source text that makes them again."""

from __future__ import annotations

import pytest
import torch

from fxmorph.model import ValuePlan
from fxmorph.programs.graph import literal
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.source import Spelling, inputs_text, make_inputs_text, run_inputs

pytestmark = pytest.mark.usefixtures("torch_quiet")
MEMORY = torch.arange(12.0)
VALUES = {
    "plain": [torch.tensor([1.5, -2.0, 3.25])],
    "scalar": [torch.tensor(2.5), 3, True, None],
    "integers": [torch.tensor([[1, -5], [7, 2**40]]), torch.tensor([True, False])],
    "odd floats": [torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1e-45])],
    "half": [torch.tensor([0.1, 65504.0], dtype=torch.float16), torch.tensor([0.1], dtype=torch.bfloat16)],
    "complex": [torch.tensor([1 + 2j, complex(-0.0, float("nan"))])],
    "strided": [MEMORY.as_strided((2, 3), (1, 4), 1)],
    "shared": [MEMORY[:6], MEMORY[3:9]],
    "requires grad": [torch.tensor([1.0, 2.0], requires_grad=True)],
    "empty": [torch.zeros(0, 3)],
    "expanded": [torch.ones(3, 1).expand(3, 4)],
}


def shown(values: list[object]) -> list[object]:
    out: list[object] = []
    for v in values:
        if isinstance(v, torch.Tensor):
            t = v.detach()
            bits = torch.view_as_real(t) if t.is_complex() else t
            out.append((v.dtype, v.shape, v.stride(), v.storage_offset(), v.requires_grad, str(bits.tolist())))
        else:
            out.append(v)
    return out


@pytest.mark.parametrize("name", VALUES)
def test_literal_text_makes_the_same_values(name: str) -> None:
    text = inputs_text(InputSet.snapshot(VALUES[name]), "literal", ValuePlan.SEED)
    assert text is not None
    assert shown(run_inputs(text)) == shown(VALUES[name])


@pytest.mark.parametrize("name", ["plain", "half", "strided", "shared", "requires grad", "odd floats", "complex"])
def test_bytes_make_the_same_values(name: str) -> None:
    text = inputs_text(InputSet.snapshot(VALUES[name]), "bytes", ValuePlan.SEED)
    assert text is not None
    assert shown(run_inputs(text)) == shown(VALUES[name])


@pytest.mark.parametrize("style", ["arange", "random"])
def test_plain_styles_keep_everything_but_the_values(style: str) -> None:
    values = [torch.randn(4, 5), MEMORY.as_strided((2, 3), (1, 4), 1), torch.rand(3).requires_grad_()]
    text = inputs_text(InputSet.snapshot(values), style, ValuePlan.SEED)
    assert text is not None
    assert [s[:5] for s in shown(run_inputs(text))] == [s[:5] for s in shown(values)]  # type: ignore[index]


def test_memory_stays_shared() -> None:
    text = inputs_text(InputSet.snapshot(VALUES["shared"]), "literal", ValuePlan.SEED)
    assert text is not None
    a, b = run_inputs(text)
    a[3] = 99
    assert b[0] == 99


def test_large_tensors_are_not_written_out() -> None:
    assert inputs_text(InputSet.snapshot([torch.randn(1000)]), "literal", ValuePlan.SEED) is None


def test_positive_inputs_stay_positive() -> None:
    for style in ("arange", "random"):
        text = inputs_text(InputSet.snapshot([torch.rand(9) + 0.1]), style, ValuePlan.SEED)
        assert text is not None
        assert bool((run_inputs(text)[0] > 0).all())


def test_memory_that_is_read_as_two_dtypes_stays_shared() -> None:
    spelling = Spelling(
        memory=lambda flat: f"torch.tensor({flat.tolist()!r}, dtype={flat.dtype})",
        ending=lambda t: "",
        other=literal,
        returned=lambda items: f"[{', '.join(items)}]",
    )
    values = [MEMORY, MEMORY.view(torch.int32)[2:], 7]
    assert shown(run_inputs(make_inputs_text(values, spelling))) == shown(values)
