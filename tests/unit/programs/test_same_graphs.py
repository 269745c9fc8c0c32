"""Which programs are the same test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import GraphLevel
from fxmorph.programs.capture import Captured
from fxmorph.programs.graph import read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.same_graphs import hash_of_test

BODY = "def fn(x):\n    y = torch.add(x, 1)\n    return (y,)\n"


def hashed(body: str = BODY, made: Callable[[], Any] = lambda: torch.ones(2, 3), **more: Any) -> str:
    captured = Captured(read_graph(body), InputSet.snapshot([made()]), GraphLevel.TORCH)
    return hash_of_test([captured], more.get("dispatched", ["aten.add.Tensor"]), more.get("meta", {}))


@pytest.mark.parametrize(
    "body", ["def fn(a):\n    b = a + 1\n    return (b,)\n", "def fn(a):\n    b = a.add(other=1)\n    return (b,)\n"]
)
def test_names_and_spelling_do_not_matter(body: str) -> None:
    assert hashed(body) == hashed()


@pytest.mark.parametrize(
    "other",
    [
        {"body": BODY.replace("1", "2")},
        {"made": lambda: torch.ones(3, 2).t()},
        {"made": lambda: torch.ones(2, 3).double()},
        {"made": lambda: torch.ones(2, 3).requires_grad_()},
        {"dispatched": ["aten.add.Tensor", "aten.add.Tensor"]},
        {"meta": {"no_grad": True}},
    ],
    ids=["number", "layout", "dtype", "gradients", "operators", "settings"],
)
def test_what_makes_another_test(other: dict[str, Any]) -> None:
    assert hashed(**other) != hashed()
