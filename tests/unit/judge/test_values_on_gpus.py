"""Values of ours that an operator refuses never reach a GPU, whose context they would end.

The GPU is the CPU here: what is moved to it stays.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.seeds import find_seeds
from fxmorph.judge.trial import SeedSubject
from fxmorph.model import DRAWN_PLANS, ValuePlan
from fxmorph.programs import load
from fxmorph.programs.inputs import NotApplicable

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


def test_a_program_for_gpus_alone_gets_all_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reached(tmp_path, GPU_ALONE, monkeypatch, "cuda") == reached(tmp_path, GPU_ALONE, monkeypatch, "cpu")
