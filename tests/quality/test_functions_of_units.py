"""Of a fault in a function that a unit calls, the finding names the function too."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from fxmorph.core.clock import Clock
from fxmorph.judge.trial import GraphSubject, Trial
from fxmorph.model import CompileConfig, Kind, ValuePlan
from fxmorph.programs.inputs import InputSet
from fxmorph.torchapi.compiling import cpp_compiler, reset
from fxmorph.torchapi.new_memory import garbage_in_new_memory
from fxmorph.torchapi.planting_text import planted_text
from fxmorph.triage.blame.inside_unit import functions_inside
from fxmorph.triage.blame.localize import localize
from fxmorph.triage.blame.probe import Probe
from fxmorph.triage.reduce.same_finding import without_guilty

pytestmark = [
    pytest.mark.usefixtures("torch_quiet"),
    pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler"),
]
#: The function is one of so many that are named first.
AMONG = 4


def pooled(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(x, 2)


def losses(x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.nll_loss(x, wanted)


POOL = ("_avg_poolnd", "override else window_size", "override else window_size + 1")
LOSS = ("_nll_loss_forward", "(target != ignore_index).sum()", "(1 + (target != ignore_index).sum())")
CASES = {
    "lowering": (
        planted_text("torch._inductor.lowering", *POOL), pooled, (torch.rand(1, 1, 4, 6),),
        "lowering.aten.avg_pool2d.default", "torch._inductor.lowering._avg_poolnd",
    ),
    "decomposition": (
        planted_text("torch._decomp.decompositions", *LOSS), losses, (torch.rand(3, 4), torch.tensor([1, 2, 0])),
        "decomposition.aten.nll_loss_forward.default", "torch._decomp.decompositions._nll_loss_forward",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "fn", "inputs", "unit", "function"), CASES.values(), ids=CASES)
def test_the_function_that_is_wrong_is_among_the_first_that_are_named(
    plant: AbstractContextManager[Any], fn: Any, inputs: tuple[Any, ...], unit: str, function: str
) -> None:
    subject = GraphSubject(fn, {ValuePlan.SEED: InputSet.snapshot(inputs)}, lambda c: c, True)

    def probe() -> Probe:
        accused = frozenset({Kind.VALUE})
        return Probe(lambda c: Trial(subject, c, 0, Clock()), CompileConfig.make(), ValuePlan.SEED, accused, 300.0)

    reset()
    with garbage_in_new_memory(), plant:
        blame = localize(probe(), "inductor")
        gone = without_guilty(blame)
        assert (blame.unit, blame.confirmed) == (unit, True)
        assert gone is not None and blame.stage is not None
        named = functions_inside(probe(), blame.stage, gone)
    reset()
    assert function in named[:AMONG]
    assert all(name.startswith("torch.") for name in named)
