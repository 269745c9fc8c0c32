"""``fxmorph cases``: its filters, its numbers, and that it needs no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fxmorph.core.config import Settings
from fxmorph.core.store import Store
from fxmorph.model import BugClass, Case, CaseResult, CompileConfig, Finding, Kind, Seed, Status

ROOT = Path(__file__).parents[2]
FIRED = ("joint.pass_patterns[0]/mul_one", "lowering.aten.mul.Tensor")


def listed(cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.modules['torch'] = None; from fxmorph.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, "cases", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=60)


def judged(path: str, number: int) -> Case:
    return Case(Seed(path, "module", path), number, 0, (), CompileConfig())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    a, b, c = judged("seeds/a.py", 0), judged("seeds/a.py", 1), judged("more/b.py", 0)
    with Store(tmp_path / ".fxmorph") as store:
        run = store.create_run(Settings(), {})
        store.add_result(run, 0, a, CaseResult(a.id, Status.CLEAN, fired=FIRED))
        store.add_result(run, 1, c, CaseResult(c.id, Status.TIE))
        recipe = "identity_pad{k=2}@mul ; mutate_late_zero@x>mul"
        store.add_result(run, 2, b, CaseResult(b.id, Status.FINDING, (Kind.VALUE,), recipe=recipe, stage="inductor"))
        found = Finding(
            "ab12cd34", b.id, "seeds/a.py", recipe, (Kind.VALUE,), BugClass.UGO, "inductor", "joint.remove_noop_ops",
            "variant-miscompiled", "f" * 16, "far", "",
        )  # fmt: skip
        store.add_finding(run, found, "f")
    return tmp_path


def test_all_cases_with_their_numbers(folder: Path) -> None:
    done = listed(folder)
    assert done.returncode == 0, done.stderr
    head, *rows, summary = done.stdout.splitlines()
    assert head.split() == ["number", "verdict", "kinds", "where", "seed", "rewrites"]
    assert [row.split()[:2] for row in rows] == [["0", "clean"], ["1", "tie"], ["2", "finding"]]
    assert rows[2].split()[3] == "joint.remove_noop_ops"
    assert summary == "3 cases: clean 1, finding 1, tie 1"


@pytest.mark.parametrize(
    "options, numbers",
    [
        (("--verdict", "finding"), [2]),
        (("--seed", "a.py"), [0, 2]),
        (("--seed", "more/*"), [1]),
        (("--rule", "mutate_*"), [2]),
        (("--unit", "joint.*"), [0, 2]),
        (("--unit", "joint.pass_patterns[0]/mul_one"), [0]),
        (("--seed", "a.py", "--verdict", "tie"), []),
    ],
)
def test_filters(folder: Path, options: tuple[str, ...], numbers: list[int]) -> None:
    lines = [json.loads(line) for line in listed(folder, "--json", *options).stdout.splitlines()]
    assert [line["index"] for line in lines] == numbers
    assert {line["event"] for line in lines} <= {"case"}


def test_a_word_that_is_no_verdict(folder: Path) -> None:
    done = listed(folder, "--verdict", "bug")
    assert done.returncode == 2 and done.stderr.startswith("fxmorph: --verdict bug: want one of clean, ")
