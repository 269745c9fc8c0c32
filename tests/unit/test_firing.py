"""Units of Inductor that a whole compile makes use of."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.pattern_matcher import PatternMatcherPass

from fxmorph.model import CompileConfig
from fxmorph.torchapi.compiling import compile_callable, configured
from fxmorph.torchapi.firing import noting

pytestmark = pytest.mark.usefixtures("torch_quiet")


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(x.t().t() * torch.ones(3)).sort(-1).values


def fired() -> set[str]:
    names: set[str] = set()
    config = CompileConfig.make()
    with configured(config), noting(names):
        compile_callable(program, config)(torch.arange(6.0).reshape(2, 3))
    return names


def test_passes_decompositions_and_lowerings_are_noted_alike_each_time() -> None:
    apply = PatternMatcherPass.apply
    first, second = fired(), fired()
    assert first == second
    assert {
        "joint.constant_fold_uniform_value",  # a product with ones
        "decomposition.aten.softplus.default",
        "lowering.aten.sort.default",
    } <= first
    assert not any("matmul" in name or "sfdp" in name for name in first)
    assert PatternMatcherPass.apply is apply
