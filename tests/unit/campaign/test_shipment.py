"""What nodes are given of this machine's disk, and what comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fxmorph.campaign.jobs import Confirm, JudgePasses
from fxmorph.campaign.node_worker import own_copy
from fxmorph.campaign.shipment import (
    RUN,
    copy_below,
    made_by,
    needed_by,
    stage,
    with_relative_paths,
    write_files,
    written_since,
)
from fxmorph.core.config import Settings
from fxmorph.core.seeds import find_seeds
from fxmorph.inductor.rung import Source

PROGRAM = "def make_inputs(): return []\ndef fn(): pass\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run; files by name are written there."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(PROGRAM)


def staged(root: Path, settings: Settings) -> set[str]:
    """What a node gets, as seen from the copy of the run's folder."""
    stage(root, settings, find_seeds(list(settings.paths))[0], ())
    here = copy_below(root, ".")
    return {os.path.relpath(file, here) for file in root.rglob("*") if file.is_file() and file != root / RUN}


def test_of_a_folder_all_goes_but_what_is_hidden_and_the_state(folder: Path, tmp_path: Path) -> None:
    write("seeds/a.py", "seeds/in/b.py", "seeds/_help.py", "seeds/data.txt", "seeds/.git/x", "seeds/__pycache__/a.pyc")
    write("seeds/state/generated/c.py", "rules/mine.py")
    settings = Settings(paths=("seeds",), state="seeds/state", transforms=(str(folder / "rules"),))
    expected = {"seeds/a.py", "seeds/in/b.py", "seeds/_help.py", "seeds/data.txt", "rules/mine.py"}
    assert staged(tmp_path / "root", settings) == expected


def test_of_a_file_what_can_be_imported_beside_it_goes(folder: Path, tmp_path: Path) -> None:
    write("model.py", "layers.py", "blocks/__init__.py", "blocks/deep/attention.py", "other/far.py", "big.bin")
    settings = Settings(paths=("model.py",))
    expected = {"model.py", "layers.py", "blocks/__init__.py", "blocks/deep/attention.py"}
    assert staged(tmp_path / "root", settings) == expected


def test_seeds_outside_of_the_folder_have_the_same_relative_path_on_a_node(folder: Path, tmp_path: Path) -> None:
    write("../elsewhere/a.py")
    settings = with_relative_paths(Settings(paths=(str(tmp_path / "elsewhere"), "op:roll"), state=str(folder / "s")))
    assert (settings.paths, settings.state) == (("../elsewhere", "op:roll"), "s")
    assert staged(tmp_path / "root", Settings(paths=("../elsewhere",))) == {"../elsewhere/a.py"}


def test_a_node_has_a_copy_of_its_own_of_what_the_cluster_unpacks_again(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / RUN).write_text("1f")
    (given / "a.py").write_text(PROGRAM)
    place = own_copy(given)
    (place / "compiled").touch()
    assert own_copy(given) == place and {file.name for file in place.iterdir()} == {RUN, "a.py", "compiled"}
    assert {folder.name for folder in tmp_path.iterdir()} == {"given", place.name}
    (given / RUN).write_text("2f")
    assert own_copy(given) != place


def test_a_findings_folder_goes_with_its_confirmation(folder: Path) -> None:
    write("state/unconfirmed/abc/repro.py", "state/unconfirmed/abc/proofs/p.json", "state/unconfirmed/other/repro.py")
    job = Confirm(0, None, None, "state/unconfirmed/abc")  # type: ignore[arg-type]
    names = {"state/unconfirmed/abc/repro.py", "state/unconfirmed/abc/proofs/p.json"}
    assert set(needed_by(job, Path("state"))) == names


def test_programs_of_units_findings_come_back_where_they_are_looked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node"
    node.mkdir()
    monkeypatch.chdir(node)
    write("state/programs/abc/seed.py", "state/programs/abc/inputs.pt", "state/programs/other/seed.py")
    judged = SimpleNamespace(pairs=[SimpleNamespace(program="state/programs/abc/seed.py"), SimpleNamespace(program="")])
    files = made_by(JudgePasses(0, Source(made="x"), (), 0, "state/programs"), (judged, ()))
    monkeypatch.chdir(folder)
    write_files(files)
    assert {str(f) for f in Path("state").rglob("*") if f.is_file()} == {
        "state/programs/abc/seed.py", "state/programs/abc/inputs.pt",
    }  # fmt: skip


def test_certificates_that_a_job_made_come_back(folder: Path) -> None:
    write("state/proofs/ab/old.json", "state/proofs/ab/new.json", "state/proofs/ab/tmp123")
    os.utime("state/proofs/ab/old.json", (0, 0))
    assert set(written_since(time.time() - 60, Path("state/proofs"))) == {"state/proofs/ab/new.json"}
