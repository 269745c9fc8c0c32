"""``fxmorph init``: what it writes is found, and its tests pass as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fxmorph.commands.init import PLACES, init
from fxmorph.core.config import ConfigError, load_settings
from fxmorph.core.seeds import find_seeds
from fxmorph.rules import load_rules

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init(tmp_path / "new", lambda line: None)
    return tmp_path / "new"


def test_every_file_has_a_place(folder: Path) -> None:
    scaffold = ROOT / "fxmorph" / "commands" / "scaffold"
    assert {file.name for file in scaffold.iterdir() if file.is_file()} == PLACES.keys()
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == set(PLACES.values())


def test_what_it_writes_is_found(folder: Path) -> None:
    seeds, refused = find_seeds([str(folder / "seeds")])
    settings = load_settings({}, folder, {})
    assert (len(seeds), refused) == (1, [])
    assert "mine_double_by_add" in [rule.id for rule in load_rules([Path(p) for p in settings.transforms])]
    assert [Path(p).name for p in settings.oracles] == ["oracles"]


def test_nothing_is_overwritten(folder: Path) -> None:
    (folder / "passes.py").unlink()
    (folder / "seeds" / "scaled_softmax.py").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        init(folder, lambda line: None)
    assert not (folder / "passes.py").exists()


@pytest.mark.slow
def test_its_tests_pass(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
