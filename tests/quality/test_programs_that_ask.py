"""Programs that ask whether they are compiled are judged by what they say that they do then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compile_queries import told_compiled
from fxmorph.torchapi.compiling import register_backend, reset

ASKING = {
    "values": "def fn(x): return x.tanh() if torch.compiler.is_compiling() else torch.relu(x)",
    "imported by name": "def fn(x): return x.tanh() if is_compiling() else torch.relu(x)",
    "Dynamo alone": "def fn(x): return x * (2 if torch.compiler.is_dynamo_compiling() else 3)",
    "by an older name": "def fn(x): return x * (2 if torch._dynamo.is_compiling() else 3)",
    "strides": "def fn(x): return x.t().clone() if is_compiling() else x.t().contiguous()",
    "a counter": """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.calls += 1
        return x.sin()
fn = Net()
""",
    "random numbers": """
def fn(x):
    if not is_compiling():
        torch.rand(3)
    return x.exp()
""",
}
#: Where tanh is compiled to something else: wrong, whatever they ask.
WRONG = {
    "it does otherwise": "def fn(x): return x.tanh() * (2 if is_compiling() else 3)",
    "it does the same": "def fn(x): return x.tanh() if is_compiling() else torch.tanh(x)",
    "it asks nothing": "def fn(x): return x.tanh()",
}
CASES = [(name, backend) for name in ASKING for backend in ("eager", "aot_eager")] + [("values", "inductor")]


def wrong_tanh(gm: torch.fx.GraphModule, inputs: Any) -> Any:
    for node in gm.graph.nodes:
        if node.target in ("tanh", torch.tanh):
            node.op, node.target = "call_function", torch.sigmoid
    gm.recompile()
    return gm.forward


def judge(folder: Path, text: str, backend: str) -> CaseResult:
    inputs = "def make_inputs(): return [torch.randn(6, 4)]\n"
    (folder / "seed.py").write_text(f"import torch\nfrom torch.compiler import is_compiling\n{inputs}{text}\n")
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED, ValuePlan.AGAIN), CompileConfig.make(backend))
    return judge_case(case, Registry(), Clock())


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_what_a_program_does_when_it_is_compiled_is_no_difference(name: str, backend: str, tmp_path: Path) -> None:
    got = judge(tmp_path, ASKING[name], backend)
    assert got.status is Status.EXPECTED and "the program asks whether it is compiled" in got.reason, got.reason


NET = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    def forward(self, x):
        return self.inner(x).tanh()
fn = Net()
def drive(fn, x):
    out = fn(x)
    out.sum().backward()
    return {told}
"""
#: What a driver reads by name, which torch.compile gives another one.
NAMED = {
    "gradients": "{n: p.grad for n, p in fn.named_parameters()}",
    "state": "fn.state_dict()",
    "buffers": "[n for n, _ in fn.named_buffers()], [n for n, _ in fn.named_modules()]",
    "part": "fn.get_parameter('inner.0.weight').grad, fn.get_submodule('inner.1').running_mean",
    "loaded": "fn.load_state_dict({k: v * 2 for k, v in fn.state_dict().items()}), fn(x)",
}


@pytest.mark.parametrize("name", NAMED)
def test_names_of_what_a_module_holds_are_its_own(name: str, tmp_path: Path) -> None:
    got = judge(tmp_path, NET.format(told=NAMED[name]), "aot_eager")
    assert got.status is Status.CLEAN, got.reason


@pytest.mark.parametrize("name", ["gradients", "loaded"])
def test_what_is_wrong_under_its_name_is_a_finding(name: str, tmp_path: Path) -> None:
    register_backend("fxmorph_wrong_tanh", wrong_tanh)
    got = judge(tmp_path, NET.format(told=NAMED[name]), "fxmorph_wrong_tanh")
    assert got.status is Status.FINDING and Kind.STRUCTURE not in got.kinds, got.reason


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_program_that_asks_is_a_finding(name: str, tmp_path: Path) -> None:
    register_backend("fxmorph_wrong_tanh", wrong_tanh)
    got = judge(tmp_path, WRONG[name], "fxmorph_wrong_tanh")
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,)), got.reason


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam"])
def test_optimisers_count_their_steps_as_compiled_ones_do(name: str) -> None:
    def steps(compiled: bool) -> torch.Tensor:
        reset()
        weight = torch.nn.Parameter(torch.zeros(4))
        optimiser = getattr(torch.optim, name)([weight], lr=0.5)

        def train(x: torch.Tensor) -> None:
            optimiser.zero_grad()
            (weight * x).sum().backward()
            optimiser.step()

        step = torch.compile(train, backend="eager") if compiled else train
        for _ in range(2):
            step(torch.tensor([1.0, 2.0, 0.5, -3.0]))
        return weight.detach()

    asked: set[str] = set()
    with told_compiled(asked):
        told = steps(compiled=False)
    assert torch.allclose(told, steps(compiled=True), rtol=5e-7, atol=0)
    assert not torch.allclose(told, steps(compiled=False), rtol=3e-6, atol=0)
    assert asked and all(module.startswith("torch.optim.") for module in asked)


def test_torch_itself_hears_what_it_always_does() -> None:
    asked: set[str] = set()
    with told_compiled(asked):
        told = torch.compiler.is_compiling()
        by_torch = eval("is_compiling()", vars(sys.modules["torch.compiler"]))
    assert told and not by_torch and asked == {__name__}
    assert not torch.compiler.is_compiling()
