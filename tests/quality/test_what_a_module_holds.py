"""Seeds whose inputs, model or optimizer belong to their module: each run gets them as they were at first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from preloaded import Preloaded

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CompileConfig, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import register_backend
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")

#: A backend whose floating-point results are off by a tenth of themselves, and what a script may have for it.
WRONG = "lambda gm, _: lambda *args: tuple(o * 1.1 if o is not None else o for o in gm(*args))"
register_backend("fxmorph_a_tenth_more", eval(WRONG))

SEEDS = {
    "an index among them": """
X, I, V = torch.randn(6, 4), torch.tensor([0, 2, 5]), torch.randn(3, 4)
def make_inputs(): return [X, I, V]
def fn(x, i, v): return torch.index_add(x, 0, i, v, alpha=2) * 2
""",
    "an input that is written": """
X, I, V = torch.zeros(6, 4), torch.tensor([0, 2, 5]), torch.randn(3, 4)
def make_inputs(): return [X, I, V]
def fn(x, i, v):
    x.index_add_(0, i, v)
    return x[i] * 2
""",
    "parameters among the inputs": """
X, W = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
def make_inputs(): return [X, W]
def fn(x, w): return torch.tanh(x @ w).sum(1)
""",
    "views of one tensor": """
B = torch.randn(8, 8)
def make_inputs(): return [B[:, :4], B.t(), torch.arange(8)]
def fn(x, y, i):
    x.mul_(2)
    return y[i] + x.sum(1)
""",
    "a model that a factory returns": """
MODEL = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
def make_fn(): return MODEL
def make_inputs(): return [torch.randn(16, 8)]
""",
    "a model and its optimizer": """
MODEL = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
STEP = torch.optim.SGD(MODEL.parameters(), lr=0.1)
X, Y = torch.randn(16, 8), torch.rand(16, 2)
fn = MODEL
def make_inputs(): return [X, Y]
def drive(g, x, y):
    losses = []
    for _ in range(3):
        STEP.zero_grad()
        loss = ((g(x) - y) ** 2).mean()
        loss.backward()
        STEP.step()
        losses.append(loss.detach())
    return losses
""",
}


def case_of(folder: Path, text: str, backend: str) -> Case:
    (folder / "seed.py").write_text("import torch\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    plans = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.NEAR, ValuePlan.LIMITS, ValuePlan.AGAIN)
    return Case(seed, 0, 0, plans, CompileConfig.make(backend))


@pytest.mark.parametrize("name", SEEDS)
def test_no_run_sees_what_another_wrote(tmp_path: Path, name: str) -> None:
    got = judge_case(case_of(tmp_path, SEEDS[name], "aot_eager"), Registry(), Clock())
    assert got.status is Status.CLEAN, got.reason
    assert not [v for v in got.verdicts if "run again" in v.reason]


@pytest.mark.parametrize("name", SEEDS)
def test_a_wrong_backend_is_accused_and_its_script_tells_it_from_a_right_one(
    tmp_path: Path, name: str, preloaded: Preloaded
) -> None:
    from fxmorph.campaign.finding_queue import finding_of
    from fxmorph.triage.folder.repro import repro_text

    case = case_of(tmp_path, SEEDS[name], "fxmorph_a_tenth_more")
    got = judge_case(case, Registry(), Clock())
    assert got.status is Status.FINDING, got.reason
    finding = finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0)
    text = repro_text(finding)
    assert text.count("backend='fxmorph_a_tenth_more'") == 1
    codes: dict[str, Any] = {}
    for backend in (WRONG, "'aot_eager'"):
        script = tmp_path / "repro.py"
        script.write_text(text.replace("backend='fxmorph_a_tenth_more'", f"backend={backend}"))
        codes[backend] = preloaded.script(script).returncode
    assert codes == {WRONG: 1, "'aot_eager'": 0}


def test_what_a_module_draws_is_the_same_wherever_it_is_loaded(tmp_path: Path) -> None:
    case = case_of(tmp_path, "W = torch.randn(4)\ndef make_inputs(): return [W]\ndef fn(x): return x\n", "eager")
    from fxmorph.programs.load import load_seed

    torch.manual_seed(5)
    first = load_seed(case.seed).fresh().args[0].clone()
    torch.manual_seed(6)
    assert torch.equal(first, load_seed(case.seed).fresh().args[0])
