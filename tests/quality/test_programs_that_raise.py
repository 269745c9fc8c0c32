"""Programs that raise in eager on their own inputs are no test, unless refusing is what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.journal import noting
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import register_backend
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")


def judge(folder: Path, text: str, backend: str = "aot_eager") -> CaseResult:
    (folder / "seed.py").write_text("import torch\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    plans = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.MASK)
    return judge_case(Case(seed, 0, 0, plans, CompileConfig.make(backend)), Registry(), Clock())


ONE = "def make_inputs(): return [torch.ones(3, 4)]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ONE + "def fn(x): raise ValueError('no such mode')\n", "ValueError: no such mode"),
        (ONE + "def fn(x): return x @ x\n", "RuntimeError: mat1 and mat2"),
        (ONE + "def fn(x): return x[torch.tensor([9])]\n", "IndexError"),
        (ONE + "def fn(x): return x + undefined\n", "NameError"),
        (ONE + "def fn(x):\n    assert x.sum() < 0, 'negative'\n    return x\n", "AssertionError: negative"),
        (ONE + "def fn(x): return x\ndef drive(g, x): return g(x)[7]\n", "IndexError"),
        (ONE + "n = []\ndef fn(x):\n    n.append(1)\n    return x[len(n) * 2]\nMETA = {'calls': 2}\n", "IndexError"),
    ],
)
def test_a_program_that_raises_in_eager_is_no_test(tmp_path: Path, text: str, words: str) -> None:
    got = judge(tmp_path, text)
    assert (got.status, got.kinds) == (Status.UNSUPPORTED, ())
    assert got.reason.startswith("call: raises in eager on its own inputs: ") and words in got.reason


def test_where_the_backward_pass_alone_raises_what_was_returned_is_judged(tmp_path: Path) -> None:
    text = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): raise NotImplementedError("later")
def make_inputs(): return [torch.ones(3, requires_grad=True)]
def fn(x): return Twice.apply(x)
"""
    lines: list[str] = []
    with noting(lines):
        assert judge(tmp_path, text).status is Status.CLEAN
    assert any("same bits" in line and "out0" in line for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        ONE + "def fn(x): return x @ x\nMETA = {'raises': True}\n",
        "def make_inputs(): return [torch.ones(2, 2), torch.ones(2, 2).double()]\ndef fn(x, y): return x @ y\n",
    ],
)
def test_that_compiled_code_refuses_what_eager_refuses_may_be_the_test(
    tmp_path: Path, text: str
) -> None:
    assert judge(tmp_path, text).status is Status.CLEAN


def test_what_eager_alone_refuses_is_a_finding_still(tmp_path: Path) -> None:
    register_backend("fxmorph_accepts", lambda gm, inputs: lambda x, i: (x * 2,))
    text = "def make_inputs(): return [torch.ones(3), torch.tensor([7])]\ndef fn(x, i): return x[i]\n"
    got = judge(tmp_path, text, "fxmorph_accepts")
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.RAISES,))


def test_on_other_values_both_may_raise(tmp_path: Path) -> None:
    inputs = "def make_inputs(): return [torch.rand(3) + 9]\n"
    text = inputs + "def fn(x):\n    if x.sum() < 9: raise ValueError('small')\n    return x * 2\n"
    assert judge(tmp_path, text).status is Status.CLEAN


def test_gradients_of_gradients_are_not_for_the_compiler(tmp_path: Path) -> None:
    text = """
def make_inputs(): return [torch.randn(5, 3, requires_grad=True), torch.randn(3)]
def fn(x, w):
    slope, = torch.autograd.grad((x.tanh() @ w).sum(), x, create_graph=True)
    return slope.norm()
"""
    got = judge(tmp_path, text)
    assert got.status is Status.UNSUPPORTED and "does not currently support double backward" in got.reason


def test_a_crash_that_no_graph_shows_is_told_as_the_program_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one where eager raises."""
    monkeypatch.setattr("fxmorph.triage.investigate.crash_of", lambda graph, run: "")  # a fork of pytest may crash
    text = "import torch\n" + ONE + "def fn(x): return torch.embedding(x, torch.tensor([7])) * 2\n"
    (tmp_path / "seed.py").write_text(text)
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED,), CompileConfig.make("aot_eager"))
    lost = CaseResult(case.id, Status.FINDING, (Kind.CRASH,), reason="crash in compiled program: signal 11 (SIGSEGV)")
    found = investigate(case, lost, Registry(), Clock(), 20.0)
    assert "return torch.embedding(x, torch.tensor([7])) * 2" in found.program and "make_inputs" in found.program
    assert lost.reason in found.evidence
    assert found.blame.evidence == ("the graph alone does not crash",) and not found.blame.confirmed
