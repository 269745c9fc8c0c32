"""Addresses computed from the text that is printed of them."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, ModularIndexing, PythonMod
from torch.utils._sympy.interp import sympy_interp

from fxmorph.model import Kernels
from fxmorph.torchapi import printed_indices
from fxmorph.torchapi.addresses import Indices, as_tensor
from fxmorph.torchapi.printed_indices import PrintedIndices

ROW, COLUMN, SIZE = sympy.symbols("i j ks0", integer=True, nonnegative=True)
OFFSET = sympy.Symbol("k", integer=True)
VALUES = {ROW: torch.arange(24).view(-1, 1), COLUMN: torch.arange(5).view(1, -1), SIZE: 6, OFFSET: torch.tensor(-7)}
LANGUAGES = (Kernels.CPP, Kernels.GPU)


def computed(expression: Any, language: Kernels) -> torch.Tensor | None:
    computation = PrintedIndices(language).computation(expression)
    return computation and as_tensor(computation({s.name: value for s, value in VALUES.items()}))  # type: ignore[return-value]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "expression",
    [
        5 * ROW + COLUMN, 3 - 2 * ROW, sympy.Integer(7), SIZE * ROW + COLUMN, FloorDiv(ROW, 4), FloorDiv(ROW, SIZE),
        FloorDiv(ROW + OFFSET, 3), ModularIndexing(ROW, 4, 4), ModularIndexing(5 * ROW + COLUMN, 3, 7), Mod(ROW, 5),
        ModularIndexing(ROW, 1, SIZE), -2 * Mod(ROW, 5) + 9, PythonMod(ROW + OFFSET, 4), Min(ROW, SIZE),
        Max(ROW, COLUMN, SIZE), ROW * ROW, Min(ROW, COLUMN, 4) + 1,
        35 * ROW - sympy.Abs(sympy.Abs(COLUMN - 2) - 4),
    ],
    ids=str,
)  # fmt: skip
def test_the_text_means_what_the_expression_does(expression: Any, language: Kernels) -> None:
    made = computed(expression, language)
    assert made is not None
    wanted = as_tensor(sympy_interp(Indices, VALUES, expression))
    assert torch.equal(*torch.broadcast_tensors(made, wanted))


def test_what_is_printed_otherwise_is_computed_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_indices, "_text", lambda *_: "(static_cast<int64_t>(i) % static_cast<int64_t>(4L))")
    made = computed(ModularIndexing(ROW, 4, 4), Kernels.CPP)
    assert made is not None and made.view(-1).tolist() == [i % 4 for i in range(24)]


@pytest.mark.parametrize(
    "text",
    [
        "a ? b : c", "__import__('os')", "i.numpy()", "_to_int(i)", "i if j else k", "'i'", "i < j < k", "i && j",
        "pow(i, 2)",
    ],
)  # fmt: skip
def test_other_text_is_not_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_indices, "_text", lambda *_: text)
    assert computed(ROW, Kernels.CPP) is None


def test_c_divides_towards_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wanted in (("k / 2L", -3), ("k % 2L", -1), ("c10::div_floor_integer(k, 2L)", -4)):
        monkeypatch.setattr(printed_indices, "_text", lambda *_, text=text: text)
        made = computed(OFFSET + ROW, Kernels.CPP)
        assert made is not None and int(made) == wanted
