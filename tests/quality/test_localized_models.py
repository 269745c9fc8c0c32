"""Which part of a model is compiled wrong, and what makes it so, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from preloaded import Command

MODEL = """
import torch


class Mlp(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(6, 12), act, torch.nn.Linear(12, 6)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Block(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.norm, self.mlp = torch.nn.LayerNorm(6), Mlp(act)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        acts = [torch.nn.GELU(), torch.nn.SiLU(), torch.nn.GELU()]
        self.blocks = torch.nn.ModuleList(Block(act) for act in acts)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def make_inputs():
    return [torch.randn(4, 6)]
"""
PLANTED = """
from torch._inductor import decomposition
decomposition.decompositions[torch.ops.aten.silu.default] = lambda x: x / (1 + (x.neg() * 1.05).exp())
"""


def test_the_part_and_the_unit_are_named(fxmorph: Command, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL + PLANTED)
    done = fxmorph("localize", "model.py:Stack", "--quick", "-j", "1", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "first wrong: blocks.1.mlp.act (SiLU), which is not rounding; the whole is finding" in done.stdout
    assert "decomposition.aten.silu.default" in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("blocks.")}
    assert rows["blocks.0.norm"].endswith("clean") and rows["blocks.1.mlp"].endswith("finding: value")
    assert (tmp_path / ".fxmorph" / "localize.svg").is_file()


@pytest.mark.slow
def test_a_right_model_is_clean(fxmorph: Command, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = fxmorph("localize", "model.py:Stack", "--mode", "train", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "model.py:Stack[train] is clean as a whole, and no part of it is compiled wrong" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.py"], "want one model by name, as model.py:Net"),
        (["model.py:Stack", "--mode", "test"], "--mode test: want one of eval, train"),
        (["model.py:make_inputs"], "does not run: TypeError: make_inputs is no torch.nn.Module"),
        (["nowhere.py:Stack"], "nowhere.py: no such file"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(
    arguments: list[str], said: str, fxmorph: Command, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = fxmorph("localize", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("fxmorph: ") and said in done.stderr
