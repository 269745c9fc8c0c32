"""``fxmorph nightly`` from the command line: two real nights, Ctrl-C, the workflow that is in the repository."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from made_runs import python_of
from other_torch import WRONG_SILU, environment
from preloaded import Command, clean_environment
from test_help import parsed
from test_run import command, folder_of

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "nightly.yml"
SILU = """import torch
def make_inputs(): return [torch.randn(4, 6)]
def fn(x): return torch.nn.functional.silu(x * 2) + 1
"""
RUN = ("nightly", "seeds", "--state", "st", "--backend", "aot_eager_decomp_partition", "--max-cases", "2", "-j1")
ONE, TWO = "2.14.0.dev20261101+cpu", "2.14.0.dev20261102+cpu"


@pytest.mark.slow
def test_a_fault_of_one_nightly_is_gone_in_the_next(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SILU)
    wrong, right = environment(tmp_path / "one", ONE, WRONG_SILU), environment(tmp_path / "two", TWO)
    first = fxmorph(*RUN, "--max-time", "120s", "--python", wrong, cwd=folder)
    assert first.returncode == 1, first.stdout + first.stderr
    assert f"night 1, torch {ONE}: 1 new, 0 back, 0 fixed; causes 1," in first.stdout
    second = fxmorph(*RUN, "--max-time", "60s", "--python", right, cwd=folder)
    assert second.returncode == 0, second.stdout + second.stderr
    assert f"night 2, torch {TWO}: 0 new, 0 back, 1 fixed; causes 0," in second.stdout
    (place,) = (folder / "st" / "findings").iterdir()
    extra = json.loads((place / "finding.json").read_text())["extra"]
    assert (extra["first_seen"], extra["last_seen"], extra["fixed_in"]) == (ONE, ONE, TWO)
    page = (folder / "st" / "site" / "index.html").read_text()
    assert f'id="{place.name}" data-state="fixed"' in page
    assert (folder / "st" / "site" / "findings" / place.name / "repro.py").is_file()


def test_ctrl_c_ends_the_night_as_it_ends_a_run(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a=SILU)
    python = python_of(tmp_path / "python", ONE, "a", ends=130)
    night = subprocess.Popen(
        command("nightly", "seeds", "--state", "st", "--python", python),
        cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells have what they start behind ignore it
    )  # fmt: skip
    assert night.stdout is not None
    said = next(iter(line for line in night.stdout if line == "waits\n"), "")
    night.send_signal(signal.SIGINT)
    rest = night.communicate(timeout=60)[0]
    assert said and night.returncode == 130, rest
    assert "shard 1/1 was interrupted; what it judged is kept" in rest and "night 1" in rest
    assert 'id="aaaaaaaaaaaa"' in (folder / "st" / "site" / "index.html").read_text()


def test_the_workflow_runs_commands_that_there_are(tmp_path: Path) -> None:
    text = re.sub(r"\\\n\s+", "", WORKFLOW.read_text(encoding="utf-8"))
    lines = [re.sub(r"\$\{\{.*?\}\}|\$\{?\w+\}?", "1", line) for line in re.findall(r"\bfxmorph [a-z].*", text)]
    assert [parsed(line.partition(" || ")[0], tmp_path) for line in lines] == ["run", "merge", "nightly"]
