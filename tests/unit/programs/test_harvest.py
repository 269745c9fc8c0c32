"""Seeds from running programs: what is written, what is left alone, exit codes."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from preloaded import Preloaded

from fxmorph.core.exits import Exit
from fxmorph.core.seeds import find_seeds
from fxmorph.programs.graph import function_of
from fxmorph.programs.harvest import capture_program, inputs_source
from fxmorph.programs.inputs import Unsupported
from fxmorph.programs.load import load_seed
from fxmorph.torchapi.storages import storage_key

PROGRAM = """
import sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
compiled = torch.compile(model, backend="eager")
for _ in range(2):
    compiled(torch.randn(5, 4)).sum().backward()
model.eval()
with torch.no_grad():
    print(compiled(torch.randn(5, 4)).sum().item(), torch.rand(()).item())
"""


def run(folder: Path, text: str, window: int = 40, *before: str) -> tuple[int, Path]:
    script = folder / "program.py"
    script.write_text(text)
    out = folder / "out"
    return capture_program([sys.executable, *before, str(script)], out, window), out


def made(values: list[object], writes: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return function_of(inputs_source(values, writes), "make_inputs")()


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Beside the seeds lies ``printed``, what the program printed meanwhile."""
    folder = tmp_path_factory.mktemp("captured")
    before = os.dup(1)
    with (folder / "printed").open("w") as printed:
        os.dup2(printed.fileno(), 1)
        try:
            return run(folder, PROGRAM, 3)
        finally:
            os.dup2(before, 1)
            os.close(before)


def test_training_and_eval_graphs_become_seeds_that_run(captured: tuple[int, Path]) -> None:
    code, out = captured
    seeds, refusals = find_seeds([str(out)])
    assert code == 0 and not refusals
    assert len([s for s in seeds if "window" not in s.origin]) == 2
    modes = set()
    for seed in seeds:
        loaded = load_seed(seed)
        fresh = loaded.fresh()
        result = fresh.drive(fresh.fn)
        assert all(torch.isfinite(t).all() for t in result if t.is_floating_point())
        assert seed.origin.startswith("captured from program.py")
        modes.add(loaded.no_grad)
    assert modes == {True, False}


def test_large_graphs_are_cut_into_windows(captured: tuple[int, Path]) -> None:
    _, out = captured
    assert list(out.glob("*_w0.py")) and list(out.glob("*_w1.py"))


def test_the_program_prints_what_it_prints_alone(captured: tuple[int, Path], preloaded: Preloaded) -> None:
    code, out = captured
    alone = preloaded.script(out.parent / "program.py").stdout
    assert code == 0 and alone and (out.parent / "printed").read_text() == alone


def test_equal_graphs_are_written_once(
    captured: tuple[int, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = shutil.copytree(captured[1], tmp_path / "out")
    written = len(list(first.glob("*.py")))
    code, out = run(tmp_path, PROGRAM, 3)
    assert code == 0 and out == first
    assert "0 seeds in" in capfd.readouterr().err and len(list(out.glob("*.py"))) == written > 2


def test_the_exit_code_of_a_program_that_fails_is_its_own(tmp_path: Path) -> None:
    code, out = run(tmp_path, PROGRAM + "\nsys.exit(7)\n")
    assert code == 7 and list(out.glob("*.py"))


@pytest.mark.parametrize(("before", "said"), [((), "compiled nothing"), (("-I",), "no Python was seen")])
def test_nothing_captured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], before: tuple[str, ...], said: str
) -> None:
    code, _ = run(tmp_path, "print(1)", 40, *before)
    assert code == Exit.NOTHING_RAN and said in capfd.readouterr().err


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert capture_program([str(tmp_path / "none")], tmp_path / "out", 40) == 2


def test_the_programs_own_sitecustomize_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own sitecustomize')\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    run(tmp_path, "print('program')")
    assert capfd.readouterr().out.split("\n")[:2] == ["own sitecustomize", "program"]


def test_the_backend_records_and_runs_eagerly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXMORPH_CAPTURE_DIR", str(tmp_path))
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    result = torch.compile(lambda x: (x * 2).sin() + 1, backend="fxmorph_capture")(x)
    assert torch.equal(result, (x * 2).sin() + 1)
    (seed,) = tmp_path.glob("*.py")
    assert "ORIGIN" in seed.read_text()


def test_layout_and_shared_memory_are_kept() -> None:
    base = torch.randn(4, 6)
    a, b = base.t(), base[1:, ::2]
    first, second = made([a, b])
    for old, new in ((a, first), (b, second)):
        assert (old.shape, old.stride(), old.storage_offset()) == (new.shape, new.stride(), new.storage_offset())
    assert storage_key(first) == storage_key(second)


def test_values_are_alike_and_not_the_same() -> None:
    index = torch.tensor([[3, 9, 9], [4, 5, 7]])
    positive, mask = torch.rand(50) + 1, (torch.rand(50) > 0.5).float()
    new_index, new_positive, new_mask, scalar = made([index, positive, mask, 3])
    assert new_index.min() >= 3 and new_index.max() <= 9 and new_index.dtype == index.dtype
    assert (new_positive > 0).all() and not torch.equal(new_positive, positive)
    assert set(new_mask.tolist()) == {0.0, 1.0} and scalar == 3


def test_structured_integers_and_masks() -> None:
    causal = torch.full((5, 5), float("-inf")).triu(1)
    offsets = torch.tensor([0, 3, 3, 8])
    order = torch.randperm(9)
    new_causal, new_offsets, new_order, lower = made([causal, offsets, order, torch.ones(4, 4).tril().bool()])
    assert torch.equal(new_causal, causal)
    assert new_offsets[0] == 0 and (new_offsets.diff() >= 0).all()
    assert sorted(new_order.tolist()) == list(range(9))
    assert torch.equal(lower, torch.ones(4, 4).tril().bool())


def test_leaves_stay_leaves_unless_the_graph_writes_into_what_is_none() -> None:
    leaf = torch.randn(3, requires_grad=True)
    inner = leaf * 2
    assert [t.is_leaf for t in made([leaf, inner])] == [True, True]
    assert [t.is_leaf for t in made([leaf, inner], writes=True)] == [True, False]


def test_sparse_inputs_are_refused() -> None:
    with pytest.raises(Unsupported, match="sparse"):
        inputs_source([torch.eye(3).to_sparse()], False)
