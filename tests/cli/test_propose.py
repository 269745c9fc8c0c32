"""``fxmorph propose`` and ``fxmorph run --propose`` from the command line, on small packs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fxmorph.events import SCHEMA

SEED = """import torch
def make_inputs(): return [torch.randn(4, 6)]
def fn(x): return torch.softmax(x * 2, -1) + 1
"""


def line(task: str, name: str, **parts: Any) -> dict[str, Any]:
    return {"task": task, "name": name, "doc": "why", "aims": "ilp", **parts}


def rule(name: str, before: str, after: str, **parts: Any) -> dict[str, Any]:
    return line("rule", name, args={"x": "m n"}, dtypes=["float32"], before=before, after=after, **parts)


ROWS = [{"name": "x", "shape": [4, 6]}]
PACK = [
    rule("product_halved_twice", "x * 2", "(x * 4) * 0.5", claim="BIT_EXACT"),
    rule("sum_backwards", "x + 1", "x.flip(0).add(1).flip(0)", claim="BIT_EXACT"),
    rule("sum_backwards_again", "torch.add(x, 1)", "(x.flip(0) + 1).flip(0)", claim="BIT_EXACT"),
    rule("wrong_by_one", "x + 1", "x + 2"),
    rule("hostile", "x + 1", "__import__('os').system('touch CANARY')"),
    rule("not_known", "x + 1", "torch.load('CANARY')"),
    rule("endless", "x + 1", "torch.linalg.matrix_power(x.repeat(40, 40)[:40, :40], 2**40) + x"),
    line("seed", "written_rows", inputs=ROWS, body="y = x.clone()\ny[1:].add_(1)\nreturn y.sum(0)"),
    line("seed", "random_rows", inputs=ROWS, body="x + torch.rand(4, 6)"),
    line("recipe", "forth_and_back", seeds=["soft*"], rules=["proposed_sum_backwards", "proposed_sum_backwards"]),
    line("recipe", "no_such_rule", seeds=["soft*"], rules=["no_such_rule_at_all"]),
    line("mutation", "other_power", args={"x": "..."}, before="x * 2", after="(x * 2).clone().mul_(3)", issue="#1"),
]  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    (tmp_path / "corpus" / "seeds" / "softmax.py").write_text(SEED)
    packs = tmp_path / "corpus" / "proposals"
    packs.mkdir()
    (packs / "all.jsonl").write_text("".join(json.dumps(p) + "\n" for p in PACK) + "{broken\n")
    return tmp_path / "corpus"


def fxmorph(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, event lines, and what people read."""
    env = {**os.environ, "PYTHONPATH": "", "FXMORPH_JOBS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "fxmorph", *arguments, "--json"],
        cwd=folder, capture_output=True, text=True, timeout=1200, env=env,
    )  # fmt: skip
    events = [json.loads(text) for text in done.stdout.splitlines()]
    for event in events:
        jsonschema.validate(event, SCHEMA)
    return done.returncode, events, done.stderr


@pytest.mark.slow
def test_a_pack_is_judged_recorded_and_used(corpus: Path, tmp_path: Path) -> None:
    packs = corpus / "proposals"
    record = packs / "outcomes.json"
    code, events, said = fxmorph(tmp_path, "propose", "--packs", str(packs), "--record", str(record), "-v")
    assert code == 0, said
    outcomes = {e["name"]: e["outcome"] for e in events if e["event"] == "proposal"}
    assert outcomes == {
        "product_halved_twice": "admitted", "sum_backwards": "admitted", "sum_backwards_again": "duplicate",
        "wrong_by_one": "refuted", "hostile": "malformed", "not_known": "unsupported", "endless": outcomes["endless"],
        "written_rows": "admitted", "random_rows": "unsupported", "forth_and_back": "malformed",
        "no_such_rule": "malformed", "other_power": outcomes["other_power"], "": "malformed",
    }  # fmt: skip
    assert "wrong_by_one" in said and "before gives" in said
    assert not list(tmp_path.rglob("CANARY"))

    code, events, said = fxmorph(tmp_path, "propose", "--packs", str(packs))
    assert [e["cached"] for e in events if e["name"] and e["name"] != "endless"] == [True] * (len(PACK) - 1)

    code, events, said = fxmorph(
        tmp_path, "run", str(corpus), "--propose", "--backend", "aot_eager", "--max-cases", "14", "--max-time", "15m"
    )
    assert code == 0, said
    started = next(e for e in events if e["event"] == "run-started")
    assert "of proposals: 2 rules" in started["notes"][0]
    cases = [e for e in events if e["event"] == "case"]
    assert any("proposed/written_rows" in c["seed"] for c in cases)
    number = next(c["index"] for c in cases if "proposed_" in c["recipe"])
    done = subprocess.run(
        [sys.executable, "-m", "fxmorph", "explain", str(number)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0 and "rewrite: " in done.stdout and "proposed_" in done.stdout


def test_usage(tmp_path: Path) -> None:
    def lines(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "fxmorph", "propose", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stderr.strip()

    assert lines("--packs", "nowhere.jsonl") == (2, "fxmorph: --packs nowhere.jsonl: no such file or folder")
    assert lines("--budget", "soon")[0] == 2
