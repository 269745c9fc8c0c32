"""Functions of torch that a program calls."""

from __future__ import annotations

import torch

from fxmorph.torchapi.torch_functions import FunctionsCalled, aten_overloads, torch_functions


def test_functions_and_overloads_have_the_names_of_programs() -> None:
    assert {"torch.add", "torch.Tensor.add_", "torch.nn.functional.silu", "torch.linalg.inv"} <= torch_functions()
    assert {"aten.add.Tensor", "aten.mm.default", "aten.mm.out"} <= aten_overloads()
    assert {str(torch.ops.aten.mm.default), str(torch.ops.aten.add.out)} <= aten_overloads()


def test_what_the_program_calls_is_noted_and_not_what_that_calls() -> None:
    with FunctionsCalled() as called:
        x = torch.ones(3)  # takes no tensor
        torch.nn.functional.gumbel_softmax(x + 1)
    assert called.names == {"torch.Tensor.add", "torch.nn.functional.gumbel_softmax"}
