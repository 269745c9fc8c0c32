"""``fxmorph corpus``: what seeds reach is measured in worker processes, and remembered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
from preloaded import Preloaded

HEAD = "import torch\n\n\ndef make_inputs():\n    return [torch.ones(2, 3)]\n\n\n"
SOFTPLUS = HEAD + "def fn(x):\n    return torch.nn.functional.softplus(x) + 1\n"
SPELLED_OTHERWISE = HEAD + "def fn(a):\n    b = torch.nn.functional.softplus(a)\n    return torch.add(b, 1)\n"
RAISES = HEAD + "def fn(x):\n    raise ValueError('no')\n"
DIES = HEAD + "def fn(x):\n    import os\n    os.abort()\n"
Corpus = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def corpus(compile_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    """``fxmorph corpus …`` beside the seeds, with nothing remembered at first."""
    folder = tmp_path_factory.mktemp("corpus") / "here"
    folder.mkdir()
    known = DIES + "\n\nEXPECTED = 'finding'\n"
    texts = {"a": SOFTPLUS, "b": SPELLED_OTHERWISE, "raises": RAISES, "dies": DIES, "known": known}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    started = Preloaded(XDG_CACHE_HOME=str(folder.parent / "cache"))
    yield lambda *arguments: started.fxmorph("corpus", *arguments, cwd=folder)
    started.close()


def test_seeds_are_measured_and_bad_ones_told(corpus: Corpus) -> None:
    done = corpus("stats", "a.py", "b.py", "raises.py", "dies.py", "--json")
    assert done.returncode == 2, done.stderr
    said = json.loads(done.stdout)
    assert (said["seeds"], said["graphs"]) == ({"module": 2}, 1)
    assert sorted(said["unmeasured"]) == ["dies.py", "raises.py"]
    assert said["unmeasured"]["raises.py"] == "eager raises ValueError: no"
    assert said["unmeasured"]["dies.py"].startswith("crash: signal 6")
    covered = {kind: names["covered"] for kind, names in said["coverage"].items()}
    assert covered["api"] == ["torch.Tensor.add", "torch.add", "torch.nn.functional.softplus"]
    assert "decomposition.aten.softplus.default" in covered["decomposition"]
    assert covered["lowering"] and len(said["coverage"]["overload"]["missing"]) > 1000
    again = corpus("stats", "a.py", "b.py", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["coverage"] == said["coverage"]
    same = corpus("dedupe", "a.py", "b.py")
    assert same.stdout == "same graph: a.py b.py\n1 of 2 seeds are spare\n"


def test_a_regression_that_crashes_is_kept(corpus: Corpus) -> None:
    done = corpus("minimise", "a.py", "known.py", "--into", "small")
    assert done.returncode == 0 and done.stderr.startswith("fxmorph: known.py: not measured: crash: signal 6")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["seed", "small/a.py", "small/known.py", "2"]
    assert done.stdout.splitlines()[2].endswith("kept: not measured")
