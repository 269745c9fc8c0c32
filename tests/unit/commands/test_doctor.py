"""What the doctor says, and that planted faults are seen and removed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fxmorph.commands import doctor
from fxmorph.commands.doctor import PROGRAM, SELF_TESTS, judge_planted, run_doctor
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.model import CaseResult, Status
from fxmorph.torchapi.planting import planted_decomposition, planted_lowering, planted_pass


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines of the doctor; self-tests are replaced by ones that pass."""
    good = [(test, True, str(test.status)) for test in SELF_TESTS]
    monkeypatch.setattr(doctor, "run_self_tests", lambda device, preload=True: iter(good))
    return []


def test_all_is_well(tmp_path: Path, said: list[str]) -> None:
    assert run_doctor(Settings(state=str(tmp_path / "state")), said.append) == Exit.OK
    text = "\n".join(said)
    assert torch.__version__ in text and "cpu: runs here" in text and "ir (--rung ir): runs here" in text
    assert said[-1] == "all is well" and not (tmp_path / "state").exists()


def test_a_self_test_that_fails(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [(SELF_TESTS[1], False, "clean")]
    monkeypatch.setattr(doctor, "run_self_tests", lambda device, preload=True: iter(bad))
    assert run_doctor(Settings(state=str(tmp_path)), said.append) == Exit.FINDINGS
    assert any("FAILED" in line for line in said)


def test_no_compiler(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxmorph.torchapi.compiling.cpp_compiler", lambda: None)
    assert run_doctor(Settings(state=str(tmp_path)), said.append) == Exit.USAGE
    assert any("install g++" in line for line in said)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA")
def test_no_cuda_device(tmp_path: Path, said: list[str]) -> None:
    assert run_doctor(Settings(state=str(tmp_path), device="cuda"), said.append) == Exit.USAGE


#: Plants that are found and blamed in test_planted.py and test_blame.py too.
SLOW = ("decomposition", "lowering")


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(
            test, id=(test.plant or "clean") + test.interpreted * " interpreted",
            marks=pytest.mark.slow if test.plant in SLOW and not test.interpreted else (),
        )
        for test in SELF_TESTS
    ],
)  # fmt: skip
def test_planted_faults_are_seen(tmp_path: Path, test: doctor.SelfTest) -> None:
    seed = tmp_path / "program.py"
    seed.write_text(PROGRAM)
    result = judge_planted(test.plant, str(seed), interpreted=test.interpreted)
    assert test.passed(result), (result.status, result.kinds, result.stage, result.reason)


def test_a_test_passes_only_on_its_own_verdict() -> None:
    lowering = SELF_TESTS[1]
    result = CaseResult("0", Status.FINDING, lowering.kinds, stage="inductor")
    assert lowering.passed(result) and not lowering.passed(replace(result, stage="decomposition"))


def test_plants_are_taken_out() -> None:
    from torch._inductor import decomposition, lowering
    from torch._inductor.fx_passes import joint_graph

    sin, cos, silu = (getattr(torch.ops.aten, n).default for n in ("sin", "cos", "silu"))
    before = lowering.lowerings[sin], decomposition.decompositions[silu], joint_graph.constant_fold_uniform_value
    with planted_lowering("sin", "cos"), planted_decomposition("silu", torch.relu), planted_pass(lambda graph: None):
        assert lowering.lowerings[sin] is lowering.lowerings[cos]
        assert decomposition.decompositions[silu] is torch.relu
        assert joint_graph.constant_fold_uniform_value is not before[2]
    after = lowering.lowerings[sin], decomposition.decompositions[silu], joint_graph.constant_fold_uniform_value
    assert after == before


def test_unknown_plants_are_refused() -> None:
    with pytest.raises(ValueError, match="no operator"), planted_lowering("no_such_operator", "cos"):
        pass
    with pytest.raises(ValueError, match="no pass"), planted_pass(lambda graph: None, "no_such_pass"):
        pass
