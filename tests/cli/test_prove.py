"""``fxmorph prove`` from outside: rules, wrong rules made of them, queries that are decided again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from fxmorph.events import SCHEMA

ROOT = Path(__file__).parents[2]


def prove(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "fxmorph", "prove", *arguments, "-j1"]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=240)


@pytest.mark.slow
def test_wrong_rules_are_made_and_counted(tmp_path: Path) -> None:
    arguments = ("--fuzz", "1h", "--max-cases", "4", "--seed", "3", "algebra_c*")
    done = prove(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        jsonschema.validate(line, SCHEMA)
    assert 2 <= len(lines) <= 4 and {line["event"] for line in lines} == {"mutant"}
    told = prove(*arguments, cwd=tmp_path).stdout.splitlines()
    assert told[-1].startswith(f"{len(lines)} mutants, ") and " not proved, 0 proved; " in told[-1]


def test_queries_are_decided_again(tmp_path: Path) -> None:
    pytest.importorskip("cvc5")
    done = prove("layout_permute_021", "--recheck", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "    decided again: z3 " in done.stdout and "; cvc5 " in done.stdout and "; computed " in done.stdout
    assert "all sizes, rank" in done.stdout
    stored = [json.loads(f.read_text()) for f in (tmp_path / ".fxmorph" / "proofs").glob("*/*.json")]
    (every,) = [c for c in stored if c["claim"] == "layout_permute_021(all sizes)"]
    assert every["queries"] and all(len(q["answers"]) == 2 and "(check-sat)" in q["smt"] for q in every["queries"])


def test_a_missing_solver_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "cvc5.py").write_text("raise ImportError('none')\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "fxmorph", "prove", "layout_permute_021", "--recheck"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "fxmorph: cvc5 is not installed: pip install 'fxmorph[solvers]'\n"
