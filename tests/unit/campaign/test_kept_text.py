"""A program that a campaign keeps, as a seed file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.campaign.kept_text import kept_text
from fxmorph.campaign.schedule import case_of
from fxmorph.core.clock import Clock
from fxmorph.core.config import Settings
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import make_variant
from fxmorph.model import Case, CaseResult, CompileConfig, Recipe, Rung, Status
from fxmorph.programs.load import load_seed, staged

pytestmark = pytest.mark.usefixtures("torch_quiet")

TEXT = """import torch


def make_inputs():
    return [torch.arange(12.0).reshape(3, 4)]


def fn(x):
    return torch.softmax(x * 2, -1) + 1
"""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (tmp_path / "program.py").write_text(TEXT)
    (seed,), _ = find_seeds([str(tmp_path / "program.py")])
    return case_of(Settings(), seed, 0, Rung.IR)


def kept(case: Case, rules: Any, recipe: Recipe | None = None) -> str:
    return kept_text(case, CaseResult(case.id, Status.CLEAN, recipe=str(recipe or "")), rules, Clock())


def loaded(folder: Path, text: str) -> Any:
    (folder / "kept.py").write_text(text)
    (seed,), refused = find_seeds([str(folder / "kept.py")])
    assert not refused
    return load_seed(seed)


def test_a_program_as_it_is_is_its_own_source(case: Case, rules: Any) -> None:
    assert kept(case, rules) == TEXT


def test_the_settings_of_its_compile_are_its_own(case: Case, rules: Any, tmp_path: Path) -> None:
    config = CompileConfig.make("inductor", {"dynamic": True}, {"max_fusion_size": 2}, {})
    text = kept(replace(case, compile=config), rules)
    assert text.startswith(TEXT)
    made = loaded(tmp_path, text).config(CompileConfig.make())
    assert (dict(made.options), dict(made.inductor)) == ({"dynamic": True}, {"max_fusion_size": 2})


def test_a_variant_is_its_graph_on_the_same_values(case: Case, rules: Any, tmp_path: Path) -> None:
    variant = replace(case, number=1, relaid=False, reshaped="")
    with staged(variant) as seed:
        recipe = make_variant(variant, seed, rules, Clock()).recipe
    assert recipe
    text = kept(variant, rules, recipe)
    assert text == kept(variant, rules, recipe)
    made = loaded(tmp_path, text)
    (given,) = [t for t in made.fresh(5).args if isinstance(t, torch.Tensor)]
    assert torch.equal(given, torch.arange(12.0).reshape(3, 4))
    assert str(recipe) in made.seed.origin and str(tmp_path) not in text


def test_what_ran_under_autocast_runs_under_it(case: Case, rules: Any, tmp_path: Path) -> None:
    text = kept(replace(case, context="autocast"), rules)
    assert "with torch.autocast('cpu', torch.bfloat16):\n" in text
    invocation = loaded(tmp_path, text).fresh()
    assert invocation.drive(lambda x: x @ x.mT).dtype == torch.bfloat16


def test_in_another_dtype_it_is_its_graph(case: Case, rules: Any, tmp_path: Path) -> None:
    made = loaded(tmp_path, kept(replace(case, dtype="bfloat16"), rules)).fresh()
    assert [t.dtype for t in made.args] == [torch.bfloat16]


def test_a_program_of_several_graphs_has_no_text(case: Case, rules: Any) -> None:
    Path(case.seed.path).write_text(TEXT.replace("fn(x):\n", "fn(x):\n    x = x + x.sum().item()\n"))
    assert kept(replace(case, dtype="bfloat16"), rules) == ""
