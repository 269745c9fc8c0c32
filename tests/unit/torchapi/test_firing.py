"""Units of Inductor that a whole compile makes use of."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch._inductor.pattern_matcher import PatternMatcherPass

from fxmorph.model import CompileConfig
from fxmorph.torchapi.compiling import compile_callable, configured
from fxmorph.torchapi.firing import NotCompiled, noting, written_only

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


def test_without_compiling_the_same_units_are_noted_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    def noted(compiled: bool) -> tuple[set[str], bool]:
        names: set[str] = set()
        config = CompileConfig.make()
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        with configured(config), noting(names), nullcontext() if compiled else written_only():
            try:
                compile_callable(program, config)(x).sum().backward()
            except NotCompiled:
                return names, False
        return names, True

    whole, ran = noted(compiled=True)
    assert ran and any("backward" in name for name in whole)
    with monkeypatch.context() as patch:
        patch.setattr("subprocess.run", _no_compiler)
        patch.setattr("subprocess.check_output", _no_compiler)
        written, ran = noted(compiled=False)
    assert not ran
    assert written == whole


def _no_compiler(*_: object, **__: object) -> None:
    raise AssertionError("a compiler was called")
