"""Rows of programs that promise batch invariance must not hang on others, to the bit, where they do not in eager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from decompositions_exchanged import instead
from preloaded import Preloaded

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CaseResult, CompileConfig, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import reset
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")
PROMISE = 'META = {"batch_invariant": True}\n'
PROGRAMS = {
    "a function": "def make_inputs(): return [torch.randn(6, 8)]\ndef fn(x): return x.sigmoid()\n",
    "a module with gradients": """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))
    def forward(self, x): return {"scaled": x.sigmoid() * self.weight, "weight": self.weight * 2}
def make_fn(): return Net()
def make_inputs(): return [torch.randn(5, 8)]
""",
    "whole numbers, and two inputs of a batch": """
def make_inputs(): return [torch.randint(0, 9, (4, 3)), torch.randn(4, 2), torch.randn(9)]
def fn(i, x, table): return table[i], x.sigmoid()
""",
}


def S(x: torch.Tensor) -> torch.Tensor:
    return 1 / (1 + (-x).exp())


#: How the rest of a batch may leak into a row, by less than any envelope sees.
LEAKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a function": lambda x: S(x) * (1 + x.mean() * 2**-22),
    "a module with gradients": lambda x: S(x) * (1 + x.sum() * 2**-25),
    "whole numbers, and two inputs of a batch": lambda x: S(x) + x.amax() * 2**-23,
}
KEPT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "another rounding of each row": lambda x: S(x.double()).float(),
    "what a row's own mean changes": lambda x: S(x) * (1 + x.mean(-1, keepdim=True) * 2**-22),
    "eager's own": lambda x: torch.ops.aten.mul(x, 1) * 0 + S(x),
}


def judge(folder: Path, text: str, sigmoid: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Case, CaseResult]:
    (folder / "seed.py").write_text(f"import torch\n{text}")
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    config = CompileConfig.make("aot_eager_decomp_partition")
    case = Case(seed, 0, 0, (ValuePlan.SEED, ValuePlan.ROWS), config)
    with instead("sigmoid", sigmoid):
        reset()
        return case, judge_case(case, Registry(), Clock())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_leak_of_other_rows_is_found_where_it_is_promised_that_there_is_none(tmp_path: Path, name: str) -> None:
    _, got = judge(tmp_path, PROMISE + PROGRAMS[name], LEAKS[name])
    assert got.status is Status.FINDING and "rows hang on others" in got.reason, got.reason
    assert judge(tmp_path, PROGRAMS[name], LEAKS[name])[1].status is Status.CLEAN


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_that_keep_their_bits_are_clean(tmp_path: Path, program: str, name: str) -> None:
    assert judge(tmp_path, PROMISE + PROGRAMS[program], KEPT[name])[1].status is Status.CLEAN


@pytest.mark.parametrize(
    "body",
    ["torch.nn.functional.batch_norm(x, None, None, training=True)", "x / x.abs().max()", "x.softmax(0)"],
)
def test_a_program_that_breaks_its_promise_in_eager_is_no_test_of_it(tmp_path: Path, body: str) -> None:
    text = f"{PROMISE}def make_inputs(): return [torch.randn(6, 8)]\ndef fn(x): return {body}\n"
    _, got = judge(tmp_path, text, S)
    assert got.status is Status.SKIPPED and "in eager" in got.reason, got.reason


def test_the_script_calls_with_other_rows(tmp_path: Path, preloaded: Preloaded) -> None:
    from fxmorph.campaign.finding_queue import finding_of
    from fxmorph.triage.folder.repro import repro_text

    leak = LEAKS["a function"]
    case, got = judge(tmp_path, PROMISE + PROGRAMS["a function"], leak)
    with instead("sigmoid", leak):
        reset()
        finding = finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0)
    text = repro_text(finding)
    assert text.count("batch_invariant") == 0
    (tmp_path / "repro.py").write_text(text)
    wrong = "lambda x: (1 + x.mean() * 2**-22) / (1 + (-x).exp())"
    planted = "import torch\nfrom torch._inductor import decomposition\n"
    planted += f"decomposition.decompositions[torch.ops.aten.sigmoid.default] = {wrong}\n"
    (tmp_path / "wrong.py").write_text(planted + text)
    assert [preloaded.script(tmp_path / f"{name}.py").returncode for name in ("wrong", "repro")] == [1, 0]
