"""Programs whose kernels are interpreted: they compute what eager does, and none is accused of anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fxmorph.core.kernel_faults import faults_noted
from fxmorph.model import CompileConfig, Kernels, Kind
from fxmorph.torchapi.compiling import compile_callable, configured
from fxmorph.torchapi.kernel_operations import WITHOUT_MEANING, not_covered

pytestmark = pytest.mark.usefixtures("torch_quiet")
FLAVOURS = (Kernels.CPP, Kernels.GPU)


def _moved(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "softmax": (lambda x: F.softmax(x * 2, -1), ((16, 32),)),
    "layer norm": (lambda x, w: F.gelu(F.layer_norm(x, (32,), w)), ((16, 32), (32,))),
    "transposed": (lambda x: (x.t() + 1).contiguous().view(-1).relu(), ((16, 32),)),
    "product": (lambda a, b: torch.relu(a @ b + 1).sum(0), ((16, 32), (32, 8))),
    "padded": (lambda x, y: F.pad(torch.cat([x, y], 1), (1, 2)) + 1, ((4, 8), (4, 8))),
    "scan": (lambda x: (x.cumsum(1) * 2, x.cummax(0).values), ((4, 8),)),
    "extremes": (lambda x: (x.argmax(1), x.t().argmin(), x.max(0).values), ((16, 32),)),
    "moments": (lambda x: x.var(1) + x.mean(1) + x.prod(1), ((16, 32),)),
    "pooled": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), ((1, 2, 8, 8),)),
    "sorted": (lambda x: x.sort(1).values + 1, ((4, 8),)),
    "searched": (lambda x: torch.bucketize(x, torch.linspace(-1, 1, 5)), ((4, 8),)),
    "written": (_moved, ((8, 4),)),
    "added at places": (lambda x: torch.zeros(8).index_add(0, (x * 3).long().clamp(0, 7), x), ((16,),)),
    "whole": (lambda x: (x * x).sum() + x.amax(), ((64, 128),)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("kernels", FLAVOURS, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_are_those_of_eager_and_nothing_is_wrong(program: str, kernels: Kernels, dynamic: bool) -> None:
    fn, shapes = PROGRAMS[program]
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    config = CompileConfig.make(options={"dynamic": dynamic}, kernels=kernels)
    with configured(config), faults_noted() as faults, torch.no_grad():
        got = compile_callable(fn, config)(*(x.clone() for x in inputs))
    torch.testing.assert_close(got, fn(*(x.clone() for x in inputs)), rtol=1e-5, atol=1e-5)
    assert [fault.said for fault in faults.found] == []


@pytest.mark.parametrize("kernels", FLAVOURS, ids=str)
def test_gradients_too(kernels: Kernels) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.silu(x) @ w, torch.arange(4))

    x, w = torch.linspace(-1, 1, 24).view(4, 6).requires_grad_(), torch.linspace(0, 2, 36).view(6, 6).requires_grad_()
    config = CompileConfig.make(kernels=kernels)
    with configured(config), faults_noted() as faults:
        got = torch.autograd.grad(compile_callable(fn, config)(x, w), (x, w))
    torch.testing.assert_close(got, torch.autograd.grad(fn(x, w), (x, w)))
    assert faults.found == ()


def test_kernels_launched_as_one_may_not_read_what_another_one_writes() -> None:
    """Wrong for every element on CUDA with torch 2.11: what another block of the launch writes is read before it is."""

    def foreach(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = torch.tanh(x)
        a = torch.special.bessel_j0(y if y.numel() == x.numel() else b)
        return (*torch._foreach_add([a, b], 1), b)

    config = CompileConfig.make(kernels=Kernels.GPU)
    x = torch.linspace(-2, 2, 40)
    for y, wrong in ((torch.ones(40), False), (torch.ones(1), True)):
        with configured(config), faults_noted() as faults, torch.no_grad():
            got = compile_callable(foreach, config)(x, y)
        torch.testing.assert_close(got, foreach(x, y))
        assert [fault.kind for fault in faults.found] == [Kind.ORDER] * wrong


def test_no_code_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import codecache

    monkeypatch.setattr(codecache, "CppPythonBindingsCodeCache", None)
    config = CompileConfig.make(kernels=Kernels.CPP)
    with configured(config):
        assert torch.equal(compile_callable(torch.neg, config)(torch.ones(3)), -torch.ones(3))


def test_every_operation_of_the_ir_has_a_meaning() -> None:
    assert not_covered() == []
    assert len(WITHOUT_MEANING) == 4
