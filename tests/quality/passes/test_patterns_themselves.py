"""A pattern and its replacement are proved for their ranks, or refuted, whatever graphs the pass is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from preloaded import Command
from torch._inductor.pattern_matcher import fwd_only

from fxmorph.inductor.own.pattern_proof import pattern_proof
from fxmorph.model import Level
from fxmorph.prove.prover import RUN_BUDGET, Prover
from fxmorph.torchapi.patterns import Source

pytestmark = pytest.mark.usefixtures("torch_quiet")


def source(pattern: Any, replacement: Any, *shapes: tuple[int, ...]) -> Source:
    return Source(pattern, replacement, fwd_only, lambda match: True, tuple(map(torch.empty, shapes)), {})


def permuted_twice(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 2, 1).permute(0, 2, 1)


def itself(x: torch.Tensor) -> torch.Tensor:
    return x


def rotated_twice(x: torch.Tensor) -> torch.Tensor:
    return x.permute(1, 2, 0).permute(1, 2, 0)


def rotated(x: torch.Tensor) -> torch.Tensor:
    return x.permute(2, 0, 1)


def softmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + y, -1)


def softmax_by_hand(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = (x + y).exp()
    return z / z.sum(-1, keepdim=True)


def mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(-1)


def eighth_of_the_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1) * 0.125


@pytest.mark.parametrize(
    ("pair", "level", "scope"),
    [
        (source(permuted_twice, itself, (2, 3, 4)), Level.INDEX_EXACT, "all sizes, rank 3"),
        (source(rotated_twice, rotated, (4, 4, 4)), Level.INDEX_EXACT, "all sizes, rank 3"),
        (source(softmax, softmax_by_hand, (4, 8), (4, 8)), Level.EXACT_REAL, "unequal sizes"),
        (source(rotated_twice, itself, (4, 4, 4)), Level.REFUTED, ""),
        (source(mean, eighth_of_the_sum, (4, 8)), Level.REFUTED, ""),
    ],
)
def test_the_level_of_a_pair(pair: Source, level: Level, scope: str) -> None:
    shown = pattern_proof(pair, Prover(budget=RUN_BUDGET))
    assert shown is not None and shown.proof.level is level, shown
    assert scope in shown.proof.scope
    assert bool(shown.refuting) is (level is Level.REFUTED)


def test_what_has_no_tensors_is_no_pair() -> None:
    assert pattern_proof(source(lambda: torch.ones(2), lambda: torch.ones(2)), Prover()) is None


def test_the_command_says_what_was_shown(tmp_path: Path, fxmorph: Command) -> None:
    (tmp_path / "p.py").write_text(
        "import torch\n\n\ndef pattern(x):\n    return x.permute(0, 2, 1).permute(0, 2, 1)\n\n\n"
        "def replacement(x):\n    return x\n\n\nPAIR = (pattern, replacement, [torch.empty(2, 3, 4)])\n"
    )
    done = fxmorph("check-pass", "p.py:PAIR", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout.splitlines()[-1])["patterns"]
    assert line.startswith("pattern pattern: INDEX_EXACT by LABEL+Z3-LIA; all sizes, rank 3; ")
