"""Under strict numerics other bits than eager's are findings, of what is computed by steps of one rounding each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from decompositions_exchanged import instead
from preloaded import Preloaded

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import reset
from fxmorph.torchapi.strict_numerics import is_strict, strict_numerics
from fxmorph.triage.investigate import investigate

pytestmark = [
    pytest.mark.usefixtures("torch_quiet"),
    pytest.mark.skipif(not strict_numerics(), reason="this torch has no strict numerics"),
]
INPUTS = "def make_inputs(): return [torch.rand(40) + 0.5, torch.rand(40) + 0.5]\n"
#: By a rounding or two: inside every envelope.
ANOTHER_ROUNDING: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "a product": ("def fn(x, y): return x * y", lambda: instead("mul.Tensor", lambda x, y: x / (1 / y))),
    "a quotient, by the reciprocal": (
        "def fn(x, y): return (x - y).relu(), x / y",
        lambda: instead("div.Tensor", lambda x, y: x * y.reciprocal()),
    ),
    "a sum that is moved after": (
        "def fn(x, y): return torch.cat([(x + y).flip(0), x]).reshape(2, -1)",
        lambda: instead("add.Tensor", lambda x, y: torch.sub(x * 3, -y * 3) / 3),
    ),
    "what is written into an argument": (
        "def fn(x, y):\n    x.mul_(y)\n    return x.max()",
        lambda: instead("mul.Tensor", lambda x, y: x / (1 / y)),
    ),
}
ALLOWED: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "an exponential": ("def fn(x, y): return (x * y).exp()", lambda: instead("exp", lambda x: x.exp2() ** 1.442695041)),
    "a sum of many": (
        "def fn(x, y): return x * y, (x * y).sum()",
        lambda: instead("sum.default", lambda x: (x * 3).mean() * (x.numel() / 3)),
    ),
    "a product that is fused into a sum": (
        "def fn(x, y): return torch.add(x, y, alpha=0.3)",
        lambda: instead("add.Tensor", lambda x, y, alpha=1: (x / 0.3 - -y) * 0.3),
    ),
    "a number beside 16 bits": (
        "def fn(x, y): return x.bfloat16() + 0.1",
        lambda: instead("add.Tensor", lambda x, y: (x.float() - -y).bfloat16()),
    ),
    "eager's own bits": ("def fn(x, y): return (x * 0.3 + y) / (x - 3), x.bfloat16() * y.bfloat16()", nullcontext),
}


def judge(folder: Path, text: str, damage: AbstractContextManager[Any], **settings: Any) -> tuple[Case, CaseResult]:
    (folder / "seed.py").write_text(f"import torch\n{INPUTS}{text}\n")
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    config = CompileConfig.make("aot_eager_decomp_partition", inductor=settings)
    case = Case(seed, 0, 0, (ValuePlan.SEED, *(() if settings else (ValuePlan.STRICT,))), config)
    with damage:
        reset()
        return case, judge_case(case, Registry(), Clock())


@pytest.mark.parametrize("name", ANOTHER_ROUNDING)
def test_another_rounding_is_found_under_strict_numerics_alone(tmp_path: Path, name: str) -> None:
    text, damage = ANOTHER_ROUNDING[name]
    _, got = judge(tmp_path, text, damage())
    assert got.status is Status.FINDING and "under strict numerics" in got.reason, got.reason
    assert {v.plan for v in got.verdicts if v.status is Status.FINDING} == {ValuePlan.STRICT}
    assert (Kind.MUTATION in got.kinds) == ("mul_" in text)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_strict_numerics_do_not_promise_is_clean(tmp_path: Path, name: str) -> None:
    text, damage = ALLOWED[name]
    assert judge(tmp_path, text, damage())[1].status is Status.CLEAN


def test_a_seed_that_asks_for_them_is_judged_so_on_every_plan(tmp_path: Path) -> None:
    text, damage = ANOTHER_ROUNDING["a product"]
    assert judge(tmp_path, text, damage(), **strict_numerics())[1].status is Status.FINDING
    assert is_strict(strict_numerics()) and not is_strict({"emulate_precision_casts": True})


def test_the_script_compares_bits(tmp_path: Path, preloaded: Preloaded) -> None:
    from fxmorph.campaign.finding_queue import finding_of
    from fxmorph.triage.folder.repro import repro_text

    text, damage = ANOTHER_ROUNDING["a product"]
    case, got = judge(tmp_path, text, damage())
    with damage():
        reset()
        finding = finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0)
    (tmp_path / "repro.py").write_text(repro_text(finding))
    planted = "import torch\nfrom torch._inductor import decomposition\n" + "decomposition.decompositions[{}] = {}\n"
    wrong = planted.format("torch.ops.aten.mul.Tensor", "lambda x, y: x / (1 / y)")
    (tmp_path / "wrong.py").write_text(wrong + (tmp_path / "repro.py").read_text())
    assert [preloaded.script(tmp_path / f"{name}.py").returncode for name in ("wrong", "repro")] == [1, 0]
