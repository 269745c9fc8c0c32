"""Values of ours that an operator refuses never reach a GPU, whose context they would end.

The GPU is the CPU here: what is moved to it stays.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fxmorph.cli import app
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.reference.lane_execution import try_moved_places
from fxmorph.judge.reference.operator_call import operator_call
from fxmorph.judge.trial import SeedSubject
from fxmorph.model import DRAWN_PLANS, ValuePlan
from fxmorph.programs import load
from fxmorph.programs.inputs import NotApplicable
from fxmorph.torchapi.dispatch import OpOverload

PLACES = "import torch\ndef make_inputs(): return [torch.rand(64) * 0.9, torch.arange(8)]\n"
INDEX = PLACES + "def fn(u, t): return t[(u * 8).long()], u + 1\n"
GPU_ALONE = PLACES + "def fn(u, t):\n    assert t.is_cuda or u.max() > 9\n    return u + t[0]\n"


def reached(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, device: str) -> set[ValuePlan]:
    """The plans whose values the program gets."""
    monkeypatch.setattr(load, "relocate", lambda values, *_: values)
    (folder / "seed.py").write_text(text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    subject, plans = SeedSubject(load.load_seed(seed, device)), set()
    for plan in (ValuePlan.SEED, *DRAWN_PLANS):
        try:
            subject._at(plan, 0, 0)
        except NotApplicable:
            continue
        plans.add(plan)
    return plans


def test_values_that_the_cpu_refuses_reach_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu = reached(tmp_path, INDEX, monkeypatch, "cpu")
    on_gpu = reached(tmp_path, INDEX, monkeypatch, "cuda")
    assert ValuePlan.SEED in on_gpu and ValuePlan.LIMITS in on_cpu - on_gpu


TENS, THIRD = torch.arange(10.0), torch.tensor([3])
GATHER, SCATTER = torch.ops.aten.index_select.default, torch.ops.aten.index_add_.default


@pytest.mark.parametrize("place", [3, 4, 10, -1])
@pytest.mark.parametrize("func", [GATHER, SCATTER])
def test_places_that_rounding_moved_out_of_range_are_refused_by_the_cpu(func: OpOverload, place: int) -> None:
    more = [torch.ones(1)] if func is SCATTER else []
    program = operator_call(func, (TENS.clone(), 0, THIRD, *more), {})
    own = [TENS.double(), 0, torch.tensor([place]), *(t.double() for t in more)]
    with nullcontext() if place in (3, 4) else pytest.raises((IndexError, RuntimeError)):
        try_moved_places(program.of_lane(tuple(own), {}), device="cpu")
    assert torch.equal(own[0], TENS.double())  # a trial writes nothing


@pytest.mark.gpu
def test_a_place_beside_the_end_does_not_end_the_process(tmp_path: Path) -> None:
    text = (
        "import torch\ndef make_inputs(): return [torch.tensor([1.9, 2.0, 0.7]), torch.rand(21)]\n"
        "def fn(r, t): return t[((r * 3 / 3) / 0.1).clamp(0, 20).ceil().long()], r.exp()\n"
    )
    (tmp_path / "seed.py").write_text(text)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "seed.py"), "--device", "cuda", "--state", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_a_program_for_gpus_alone_gets_all_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reached(tmp_path, GPU_ALONE, monkeypatch, "cuda") == reached(tmp_path, GPU_ALONE, monkeypatch, "cpu")
