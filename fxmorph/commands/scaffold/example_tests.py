"""`pytest` runs these, and judges each file in seeds/ (pytest.ini says so)."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from passes import drop_second_relu

from fxmorph.oracle import load_oracles, use_oracles

HERE = Path(__file__).parents[1]


def test_a_program_is_compiled_right(assert_equivalent):
    assert_equivalent(lambda x: torch.softmax(x * 2, -1), [torch.randn(4, 6)])


def test_the_pass_keeps_what_graphs_mean(check_pass):
    assert check_pass(drop_second_relu, corpus=()) > 0


def test_the_rule_is_proved():
    command = [sys.executable, "-m", "fxmorph", "prove", "mine_double_by_add", "--transforms", "transforms"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("last, findings", [(1.0, 0), (float("nan"), 1)])
def test_the_oracle_sees_what_it_is_for(last, findings):
    use_oracles([HERE / "oracles"])
    (mine,) = (oracle for oracle in load_oracles() if oracle.name == "stays_finite")
    slots = ("out0", SimpleNamespace(value=torch.ones(2)), SimpleNamespace(value=torch.tensor([1.0, last])))
    evidence = SimpleNamespace(paired_outputs=lambda: [slots])
    assert len(list(mine.judge(evidence))) == findings
