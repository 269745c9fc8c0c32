"""``fxmorph run --pass`` and ``fxmorph coverage`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from preloaded import Command

SEED = """
import torch
def fn(x):
    return torch.relu(x * torch.ones(3, 4)) + 2
def make_inputs():
    return [torch.arange(-6.0, 6.0).reshape(3, 4)]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "scaled.py").write_text(SEED)
    return tmp_path


def test_a_unit_is_run_alone_judged_proved_and_counted(folder: Path, fxmorph: Command) -> None:
    one = ("--pass", "joint.constant_fold_uniform_value", "--no-rewrites", "-j", "1")
    ran = fxmorph("run", "seeds", *one, "--max-time", "4m", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    fired = [e for e in events if e["event"] == "unit-fired"]
    of_seeds, made = [e for e in fired if e["part"] != "made"], [e for e in fired if e["part"] == "made"]
    assert of_seeds and all((e["verdict"], e["outcome"]) == ("clean", "proved") for e in of_seeds)
    runs = [e for e in made if not e["reason"].startswith("before raises")]  # as an offset beyond the memory does
    assert len(runs) > len(made) / 2
    assert all(e["verdict"] in ("clean", "edge-case") and not e["outcome"] for e in runs)
    table = events[-1]["coverage"]["passes"]
    assert table["pairs"] == len(fired) == table["units"]["joint.constant_fold_uniform_value"]["fired"]
    told = fxmorph("coverage", cwd=folder)
    assert told.returncode == 0 and "joint.constant_fold_uniform_value" in told.stdout


def test_an_unknown_unit_and_a_missing_run_are_one_line_each(folder: Path, fxmorph: Command) -> None:
    unknown = fxmorph("run", "seeds", "--pass", "joint.constant_fold_uniform_valu", cwd=folder)
    assert unknown.returncode == 2 and unknown.stderr.count("\n") == 1
    assert "did you mean joint.constant_fold_uniform_value" in unknown.stderr
    missing = fxmorph("coverage", cwd=folder)
    assert missing.returncode == 2 and missing.stderr.count("\n") == 1


@pytest.mark.slow
def test_where_nothing_fires_nothing_ran(folder: Path, fxmorph: Command) -> None:
    one = ("--pass", "post_grad.remove_profiler_ops", "--no-rewrites", "-j", "1")
    ran = fxmorph("run", "seeds", *one, "--max-time", "4m", cwd=folder)
    assert ran.returncode == 5, ran.stdout + ran.stderr


@pytest.mark.slow
def test_whole_compiles_say_which_units_fired(folder: Path, fxmorph: Command) -> None:
    said = fxmorph("run", "seeds", "--json", "--max-cases", "3", cwd=folder)
    units = json.loads(said.stdout.splitlines()[-1])["coverage"]["units"]
    assert any(name.startswith("lowering.") for name in units)
    told = fxmorph("coverage", cwd=folder)
    assert told.returncode == 0 and all(name in told.stdout for name in units)
    assert "Fired in whole compiles: " in told.stdout
    listed = fxmorph("passes", "--json", "--kind", "lowering", cwd=folder)
    rows = {e["name"]: e for e in map(json.loads, listed.stdout.splitlines())}
    assert all(rows[name]["fired"] == count for name, count in units.items() if name in rows)
