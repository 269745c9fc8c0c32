"""The pytest plug-in, in pytest processes of its own, with a backend that needs no C++ compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from fxmorph.pytest_plugin import known_broken

ROOT = Path(__file__).parents[3]
GOOD = """import torch
def make_inputs(): return [torch.randn(3, 4)]
def fn(x): return torch.softmax(x, -1)
"""
#: The plug-in's backend option is any name that this torch knows; importing the seed makes a wrong one.
WRONG = """import torch
def doubles(gm, inputs):
    return lambda *args: [2 * out for out in gm(*args)]
if "doubles" not in torch._dynamo.list_backends(None):
    torch._dynamo.register_backend(doubles, name="doubles")
def make_inputs(): return [torch.randn(3, 4)]
def fn(x): return torch.softmax(x, -1)
"""
TESTS = """
import torch
import pytest

def test_right(assert_equivalent):
    assert_equivalent(lambda x: x * 2 + 1, [torch.randn(3)], backend="aot_eager")

def test_wrong(assert_equivalent):
    def broken(gm, inputs):
        return lambda *args: [out + 1 for out in gm(*args)]
    torch._dynamo.register_backend(broken, name="broken")
    with pytest.raises(AssertionError, match="value"):
        assert_equivalent(lambda x: x * 2, lambda: [torch.randn(3)], backend="broken")

def test_fixture(check_pass):
    assert callable(check_pass)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "fxmorph.pytest_plugin", "-q", "-rA", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=240)


@pytest.mark.slow
def test_seeds_are_items_and_fixtures_judge(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    release = metadata.version("torch").partition("+")[0]
    for name, text in {
        "good": GOOD,
        "wrong": WRONG,
        "alive": WRONG + f'EXPECTED = "finding"\nBROKEN_IN = "1.0 {release}"\n',
        "fixed": WRONG + 'EXPECTED = "finding"\nBROKEN_IN = "1.0"\n',
        "other": "x = 1\n",
    }.items():
        (tmp_path / "corpus" / f"{name}.py").write_text(text)
    (tmp_path / "test_mine.py").write_text(TESTS)
    done = run(tmp_path, "--fxmorph", "--fxmorph-backend", "doubles", "corpus")
    assert re.search(r"^2 failed, 1 passed, 1 xfailed", done.stdout, re.M), done.stdout + done.stderr
    assert "FAILED corpus/fixed.py" in done.stdout, done.stdout + done.stderr
    assert "torch.compile and eager differ" in done.stdout
    done = run(
        tmp_path, "--fxmorph", "--fxmorph-backend", "aot_eager", "corpus/good.py", "corpus/other.py", "test_mine.py"
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        ('BROKEN_IN = "2.11.0 2.13.0"', True),
        ('BROKEN_IN = "2.11.0 2.13"', False),
        ('BROKEN_IN = "2.1.2 (from 2.13.0 on the compiled side raises)"', False),
        ('BROKEN_IN = "GPU only: 2.13.0 (inputs on cuda)"', False),
        ('BROKEN_IN = "GPU only: 2.13.0"\nMETA = {"device": "cuda"}', True),
        ("", False),
    ],
)
def test_a_bug_is_known_on_the_releases_that_its_file_names(lines: str, broken: bool) -> None:
    for expected in ("finding", "edge-case"):
        text = f'import torch\nORIGIN = "x"\nEXPECTED = "{expected}"\n{lines}\ndef fn(x): return x\n'
        assert known_broken(text, "2.13.0+cpu") is (broken and expected == "finding")


def test_nothing_is_collected_unasked_and_torch_stays_out(tmp_path: Path) -> None:
    (tmp_path / "seed.py").write_text(GOOD)
    (tmp_path / "test_light.py").write_text("import sys\ndef test_it(): assert 'torch' not in sys.modules\n")
    done = run(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "seed" not in done.stdout


def test_the_corpus_folder_of_the_project_is_collected(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "good.py").write_text(GOOD)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfxmorph_corpus = corpus\n")
    done = run(tmp_path, "--collect-only")
    assert "1 test collected" in done.stdout, done.stdout + done.stderr
