"""What a finding's repro shows under other releases, each an interpreter of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.store import Store
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder.confirm import write_finding
from fxmorph.triage.folder.releases import release_of, try_releases

PROGRAM = "def make_inputs():\n    return [torch.ones(2)]\n\n\ndef fn(x):\n    return (x + 1,)\n"


def interpreter(folder: Path, release: str, code: int) -> str:
    """A Python that has this torch, and whose repros exit with ``code``."""
    folder.mkdir()
    made = folder / "python"
    made.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo {release}; else exit {code}; fi\n')
    made.chmod(0o755)
    return str(made)


def test_a_line_per_release_is_written_and_stored(tmp_path: Path) -> None:
    settings, place = Settings(state=str(tmp_path / "state")), tmp_path / "aa"
    found = Finding("aa", "c", "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", "aa", "far", PROGRAM)
    with Store(settings.state_dir) as store:
        write_finding(place, found, {"torch": "2.13.0"}, tmp_path / "proofs")
        store.add_finding(store.create_run(settings, {"torch": "2.13.0"}), found, str(place))
    before = (place / "repro.py").read_text()
    pythons = [interpreter(tmp_path / r, r, code) for r, code in (("2.10.0", 0), ("2.11.0", 1), ("2.4.0", 2))]
    said: list[str] = []
    assert try_releases(settings, ["a"], pythons[:2], {"torch": "3.0"}, said.append) == 1
    assert said == ["aa torch 2.10.0: gone", "aa torch 2.11.0: still there"]
    assert try_releases(settings, [], pythons[2:], {"torch": "3.0"}, said.append) == 1
    issue = (place / "issue.md").read_text()
    assert "| 2.10.0 | gone |\n| 2.11.0 | still there |\n| 2.4.0 | breaks |" in issue
    assert "Under `torch.compile` (torch 2.13.0)" in issue and (place / "repro.py").read_text() == before
    rows = [["2.10.0", "gone"], ["2.11.0", "still there"], ["2.4.0", "breaks"]]
    assert json.loads((place / "finding.json").read_text())["extra"]["releases"] == rows
    with Store(settings.state_dir, write=False) as store:
        assert [list(row) for row in store.finding("aa")[0].releases or ()] == rows


def test_an_interpreter_without_torch_is_refused_in_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ConfigError, match="No module named 'torch'"):
        release_of(str(bare))
    with pytest.raises(ConfigError, match="cannot be run"):
        release_of(str(tmp_path / "nowhere"))
