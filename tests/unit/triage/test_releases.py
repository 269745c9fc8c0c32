"""What a finding's repro shows under other releases, each an interpreter of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fxmorph.commands.bisect_releases import bisect
from fxmorph.commands.findings import show_finding
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.lifetime import BREAKS, GONE, STILL_THERE, first_change, next_to_try
from fxmorph.core.store import Store
from fxmorph.core.torch_environment import release_of
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder.confirm import write_finding
from fxmorph.triage.folder.releases import try_releases

PROGRAM = "def make_inputs():\n    return [torch.ones(2)]\n\n\ndef fn(x):\n    return (x + 1,)\n"


def interpreter(folder: Path, release: str, code: int) -> str:
    """A Python that has this torch, and whose repros exit with ``code``."""
    folder.mkdir()
    made = folder / "python"
    made.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo {release}; else exit {code}; fi\n')
    made.chmod(0o755)
    return str(made)


def interpreters(tmp_path: Path, *shown: tuple[str, int]) -> list[str]:
    return [interpreter(tmp_path / f"env-{release}", release, code) for release, code in shown]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a state folder with the finding aa."""
    settings, place = Settings(state=str(tmp_path / "state")), tmp_path / "aa"
    found = Finding("aa", "c", "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", "aa", "far", PROGRAM)
    with Store(settings.state_dir) as store:
        write_finding(place, found, {"torch": "2.13.0"}, tmp_path / "proofs")
        store.add_finding(store.create_run(settings, {"torch": "2.13.0"}), found, str(place))
    return settings


def test_a_line_per_release_is_written_and_stored(settings: Settings, tmp_path: Path) -> None:
    place = tmp_path / "aa"
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


def test_bisection_tries_as_few_as_tell_where_it_changes(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [(f"2.{minor}.0", int(minor >= 9)) for minor in (14, 13, 12, 11, 10, 9, 8, 7, 6)]
    assert bisect(settings, "a", interpreters(tmp_path, *shown), False) == 0
    said = capsys.readouterr().out.splitlines()
    tried = [line.split()[2].rstrip(":") for line in said[:-2]]
    assert tried[:2] == ["2.6.0", "2.14.0"] and len(tried) <= 6
    assert said[-2:] == [
        "last good torch 2.8.0, first bad torch 2.9.0",
        "aa: first seen torch 2.9.0, last seen torch 2.14.0",
    ]
    with Store(settings.state_dir, write=False) as store:
        assert dict(store.finding("aa")[0].releases or ()).keys() == {*tried}
    extra = json.loads((tmp_path / "aa" / "finding.json").read_text())["extra"]
    assert (extra["first_seen"], extra["last_seen"]) == ("2.9.0", "2.14.0")
    assert "Affected releases: first seen torch 2.9.0" in (tmp_path / "aa" / "issue.md").read_text()
    show_finding(settings, "aa")
    assert capsys.readouterr().out.splitlines()[-1].startswith("first seen torch 2.9.0")


def test_a_fix_and_releases_that_break_are_told(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pythons = interpreters(tmp_path, ("2.4.0", 2), ("2.8.0", 1), ("2.9.0", 2), ("2.10.0", 0), ("2.11.0", 0))
    assert bisect(settings, "a", pythons, True) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 7
    assert said[-2] == "last bad torch 2.8.0, first good torch 2.10.0 (the repro breaks under torch 2.9.0)"
    assert said[-1].endswith("fixed in torch 2.10.0")
    assert bisect(settings, "a", pythons[:1], False) == 5
    assert bisect(settings, "a", pythons[1:2], False) == 0
    assert "still there under all that were tried: torch 2.8.0" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="--python"):
        bisect(settings, "a", [], False)


@pytest.mark.parametrize("broken", [(), (0,), (3, 4, 5), (0, 7), (1, 2, 3, 4, 5, 6), tuple(range(8))])
@pytest.mark.parametrize("first", range(1, 8))
def test_bisection_ends_at_the_change(broken: tuple[int, ...], first: int) -> None:
    truth = [BREAKS if n in broken else STILL_THERE if n >= first else GONE for n in range(8)]
    shown: list[str | None] = [None] * 8
    while (place := next_to_try(shown)) is not None:
        assert shown[place] is None
        shown[place] = truth[place]
    change, whole = first_change(shown), first_change(truth)
    assert change == whole


def test_an_interpreter_without_torch_is_refused_in_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ConfigError, match="No module named 'torch'"):
        release_of(str(bare))
    with pytest.raises(ConfigError, match="cannot be run"):
        release_of(str(tmp_path / "nowhere"))
