"""Functions of torch that run: which are noted, and which of them say something of a unit."""

from __future__ import annotations

import sys

import pytest
import torch
import torch._decomp.decompositions  # not while functions are noted

from fxmorph.core.units import Stage
from fxmorph.torchapi.functions_run import MOST, functions_noted, telling

DECOMPOSITIONS = "_decomp/decompositions.py"


def test_functions_of_torch_are_noted_in_their_order_and_others_are_not() -> None:
    with functions_noted() as run:
        torch._decomp.decompositions.nll_loss_forward(torch.rand(3, 4), torch.tensor([0, 1, 2]), None, 1, -100)
    of_losses = [name for file, name in run if file == DECOMPOSITIONS and "nll_loss" in name]
    assert of_losses == ["nll_loss_forward", "_nll_loss_forward"]
    assert all(not file.startswith("/") for file, _ in run)
    assert sys.getprofile() is None


def test_functions_are_noted_where_something_raises() -> None:
    with pytest.raises(IndexError), functions_noted() as run:
        torch._decomp.decompositions.nll_loss_forward(torch.rand(3, 4), torch.tensor(0), None, 1, -100)
    assert (DECOMPOSITIONS, "nll_loss_forward") in run
    assert sys.getprofile() is None


def test_what_a_function_defines_counts_as_the_function() -> None:
    with functions_noted() as run:
        torch._decomp.decompositions.out_wrapper()(lambda x: x)
    assert not any("<locals>" in name for _, name in run)


def test_only_the_stages_own_files_tell_and_its_central_ones_come_first() -> None:
    run = [
        ("_inductor/ir.py", "View.create"), ("_inductor/lowering.py", "var_mean_helper_"), ("_inductor/utils.py", "f"),
        ("_inductor/lowering.py", "__init__"), ("_inductor/lowering.py", "<lambda>"),
    ]  # fmt: skip
    wanted = ("torch._inductor.lowering.var_mean_helper_", "torch._inductor.ir.View.create")
    assert telling(run, Stage.LOWERING) == wanted
    assert telling(run, Stage.DYNAMO) == ()


def test_what_everyday_programs_run_comes_last_or_not_at_all() -> None:
    file = "_inductor/lowering.py"
    rare, common, everywhere = ((file, name) for name in ("rare", "common", "everywhere"))
    ordinary = ({everywhere, common}, {everywhere})
    said = telling([everywhere, common, rare], Stage.LOWERING, ordinary)
    assert said == ("torch._inductor.lowering.rare", "torch._inductor.lowering.common")


def test_few_are_told() -> None:
    run = [("_inductor/lowering.py", f"f{i}") for i in range(MOST + 5)]
    assert telling(run, Stage.LOWERING) == tuple(f"torch._inductor.lowering.f{i}" for i in range(MOST))


def test_packages_have_the_name_that_they_are_imported_by() -> None:
    assert telling([("_refs/__init__.py", "roll")], Stage.DECOMPOSITION) == ("torch._refs.roll",)
