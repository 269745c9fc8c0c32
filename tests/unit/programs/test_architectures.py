"""Public architectures as seeds: what is written loads; a library that is not there is said."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fxmorph.commands.model_seeds import write_models
from fxmorph.core.config import ConfigError
from fxmorph.core.seeds import find_seeds
from fxmorph.programs.architectures import ARCHITECTURES, Architecture
from fxmorph.programs.load import load_seed

NAMES = [a.name for a in ARCHITECTURES]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A library that builds one layer, in the place of torch_geometric's."""
    made = ModuleType("layers")
    made.Model = torch.nn.Linear  # type: ignore[attr-defined]
    made.__spec__ = __spec__
    monkeypatch.setitem(sys.modules, "layers", made)
    return made


def of_layers(call: str = "") -> Architecture:
    return Architecture("one", "layers", "from layers import Model", "Model(3, 2)", ("torch.ones(4, 3)",), call)


def test_names_are_different_and_texts_parse() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 20
    docs = (Path(__file__).parents[3] / "docs" / "seeds.md").read_text(encoding="utf-8")
    assert f"{2 * len(NAMES)} seeds of {len(NAMES)} architectures in models" in docs
    for architecture in ARCHITECTURES:
        for training in (True, False):
            ast.parse(architecture.seed_text(training))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("call", ["", "input=x"])
def test_a_text_is_a_seed_in_its_mode(training: bool, call: str, library: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(of_layers(call).seed_text(training))
    seeds, refused = find_seeds([str(tmp_path)])
    loaded = load_seed(seeds[0])
    made = loaded.fresh(0)
    assert not refused and loaded.no_grad is not training
    assert isinstance(made.fn, torch.nn.Linear) and made.fn.training is training


def test_each_mode_of_what_is_installed_is_written(
    library: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = Architecture("other", "no_such_library", "import no_such_library", "no_such_library.Model()", ())
    monkeypatch.setattr("fxmorph.commands.model_seeds.ARCHITECTURES", (of_layers(), absent))
    write_models((), tmp_path / "made")
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == ["one.py", "one_train.py"]
    assert capsys.readouterr().out.endswith("not installed: no_such_library\n")
    with pytest.raises(ConfigError, match="pip install no_such_library"):
        write_models(("other",), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_made_is_said(
    library: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxmorph.commands.model_seeds.ARCHITECTURES", (of_layers(),))
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="--out"):
        write_models((), tmp_path / "taken")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=NAMES)
def test_every_architecture_runs(architecture: Architecture, tmp_path: Path) -> None:
    pytest.importorskip(architecture.library)
    (tmp_path / "it.py").write_text(architecture.seed_text(training=False))
    made = load_seed(find_seeds([str(tmp_path)])[0][0]).fresh(0)
    with torch.no_grad():
        assert made.drive(made.fn, *made.args) is not None
