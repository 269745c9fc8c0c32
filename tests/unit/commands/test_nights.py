"""Nights, with a stand-in for ``fxmorph run`` that stores what it is told to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_runs import python_of, store_into

from fxmorph.campaign import night_run
from fxmorph.commands import nightly as command
from fxmorph.commands.merge import merge
from fxmorph.commands.nightly import NightOptions, nightly, options
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import Store, StoreError
from fxmorph.events import SCHEMA
from fxmorph.model import Finding


class Nights:
    """``night(day, …)`` is the exit code of the night under the torch of that day."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        (folder / "s.py").write_text("def fn(x): return x\n")

    def python(self, day: int, found: str = "", shows: int = 1, ends: int = 0) -> str:
        return python_of(self.folder / f"python-{day}", f"2.16.0.dev202611{day:02}+cpu", found, shows, ends)

    def __call__(self, day: int, found: str = "", *, shards: int = 1, settings: Any = None, **does: int) -> Exit:
        return nightly(self.settings(**(settings or {})), NightOptions(self.python(day, found, **does), shards), {})

    def settings(self, **more: Any) -> Settings:
        return Settings(paths=(str(self.folder / "s.py"),), state=str(self.state), **more)

    def finding(self, letter: str) -> Finding:
        with Store(self.state, write=False) as store:
            return store.finding(letter)[0]

    def page(self, name: str = "index.html") -> str:
        return (self.state / "site" / name).read_text(encoding="utf-8")


@pytest.fixture
def night(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def last_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("site:", "torch "))]


def test_three_nights_tell_since_when_and_until_when(night: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    assert night(1, "abk") == Exit.FINDINGS
    said = last_lines(capsys)
    assert sorted(line.split()[0] for line in said[:-1]) == ["new"] * 3
    assert said[-1] == "night 1, torch 2.16.0.dev20261101+cpu: 3 new, 0 back, 0 fixed; causes 3, cases 3, runs 1"
    assert night(2, "a", shows=0) == Exit.OK
    said = last_lines(capsys)
    assert [line.split()[:2] for line in said[:-1]] == [
        ["FIXED", "b" * 12], ["FIXED", "k" * 12], ["fixed", f"{'b' * 12}:"], ["fixed", "k" * 12]
    ]  # fmt: skip
    assert said[-1].startswith("night 2, torch 2.16.0.dev20261102+cpu: 0 new, 0 back, 2 fixed; causes 1,")
    lifetime = night.finding("b").lifetime
    assert (lifetime.last_seen, lifetime.fixed_in) == ("2.16.0.dev20261101+cpu", "2.16.0.dev20261102+cpu")
    extra = json.loads((night.state / "findings" / ("b" * 12) / "finding.json").read_text())["extra"]
    assert extra["fixed_in"] == "2.16.0.dev20261102+cpu"
    # Back by its repro alone, beside one that is new.
    assert night(3, "c", shows=1) == Exit.FINDINGS
    said = last_lines(capsys)
    assert said[-1].startswith("night 3, torch 2.16.0.dev20261103+cpu: 1 new, 2 back, 0 fixed; causes 4,")
    page = night.page()
    assert all(f'id="{letter * 12}"' in page for letter in "abck")
    assert "Night 3" in page and page.count('data-state="back"') == 2 and 'data-state="new"' in page
    assert (night.state / "site" / "findings" / ("a" * 12) / "repro.py").is_file()
    assert "pytorch/pytorch#189518" in night.page("bugs.html")
    nights = night.page("nights.html")
    assert all(f'href="nights/{number}.html"' in nights for number in (1, 2, 3))
    assert (night.state / "site" / "nights" / "2.html").is_file()


def test_what_is_known_counts_where_it_is_asked_for(night: Nights) -> None:
    assert night(1, "k") == Exit.OK
    assert Nights(night.folder)(2, "k", settings={"fail_on_known": True}) == Exit.OK  # of the night before
    (night.folder / "other").mkdir()
    assert Nights(night.folder / "other")(1, "k", settings={"fail_on_known": True}) == Exit.FINDINGS


def test_a_shard_that_is_killed_loses_nothing_and_the_site_is_written(
    night: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert night(1, "a", shards=2, ends=-9) == Exit.INTERNAL
    said = capsys.readouterr().out
    assert "shard 1/2 was killed by SIGKILL; what it stored is kept" in said
    assert "shard 2/2 was killed by SIGKILL" in said and "1 new, 0 back, 0 fixed; causes 1, cases 2, runs 2" in said
    assert "was killed by SIGKILL" in night.page() and 'id="aaaaaaaaaaaa"' in night.page()


@pytest.mark.parametrize(("ends", "code"), [(1, 0), (4, 4), (3, 3), (5, 0)])
def test_the_worst_code_of_the_shards_counts(night: Nights, ends: int, code: int) -> None:
    assert night(1, "", ends=ends) == code
    assert (night.state / "site" / "index.html").is_file()


def test_arguments_that_a_run_refuses_are_no_night(night: Nights) -> None:
    assert night(1, "", ends=2) == Exit.USAGE
    assert not (night.state / "site").exists()
    with Store(night.state) as store:
        assert store.nights() == []


def test_shards_that_were_run_elsewhere_are_a_night(night: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    night(1, "a")
    parts = [store_into(night.folder / f"s{n}", "2.16.0.dev20261102", letter) for n, letter in ((1, "b"), (2, "c"))]
    merge([str(part) for part in parts], str(night.state))
    capsys.readouterr()
    elsewhere = Settings(state=str(night.state))
    assert nightly(elsewhere, NightOptions(night.python(3), 0), {}) == Exit.NOTHING_RAN
    assert "no run under torch 2.16.0.dev20261103+cpu since the last night" in capsys.readouterr().out
    assert nightly(elsewhere, NightOptions(night.python(2, shows=0), 0), {}) == Exit.FINDINGS
    said = last_lines(capsys)
    assert said[-1] == "night 2, torch 2.16.0.dev20261102+cpu: 2 new, 0 back, 1 fixed; causes 2, cases 2, runs 2"
    assert nightly(elsewhere, NightOptions("nowhere/python", 0), {}) == Exit.NOTHING_RAN
    assert "no run since the last night" in capsys.readouterr().out
    with pytest.raises(StoreError, match="no fxmorph state"):
        nightly(Settings(state=str(night.folder / "none")), NightOptions("", 0), {})


def test_builds_of_one_name_are_told_apart_by_nights(night: Nights) -> None:
    """As of builds from source: what was found is not said to be gone under the release that it was found with."""
    night(1, "ab")
    assert night(1, "a", shows=0) == Exit.OK
    assert night.finding("b").releases == (("2.16.0.dev20261101+cpu", "still there"),)
    assert 'id="bbbbbbbbbbbb" data-state="fixed"' in night.page()


def test_a_state_folder_may_be_moved_between_nights(night: Nights) -> None:
    night(1, "ab")
    night.state = night.state.rename(night.folder / "elsewhere")
    assert night(2, "a", shows=0) == Exit.OK
    assert 'id="bbbbbbbbbbbb" data-state="fixed"' in night.page()


def test_what_is_new_is_run_under_other_releases(night: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    old = python_of(night.folder / "old", "2.15.0", shows=0)
    wanted = NightOptions(night.python(1, "a"), 1, (old,))
    assert nightly(night.settings(), wanted, {}) == Exit.FINDINGS
    assert "torch 2.15.0: gone" in capsys.readouterr().out
    assert dict(night.finding("a").releases or ()) == {"2.15.0": "gone", "2.16.0.dev20261101+cpu": "still there"}
    assert "last good torch 2.15.0, first bad torch 2.16.0.dev20261101+cpu" in night.page()


def test_of_nights_long_past_there_are_findings_and_no_cases(
    night: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "KEPT_REPORTS", 2)
    for day in (1, 2, 3):
        night(day, "au")
    with Store(night.state) as store:
        runs, nights = store.runs(), store.nights()
        assert [len(store.results(run.id)) for run in runs] == [0, 2, 2]
        assert [len(store.findings(run.id)) for run in runs] == [1, 2, 2]
    assert [past.cases for past in nights] == [2, 2, 2] and night_run.KEPT_CASES == 2
    assert sorted(page.name for page in (night.state / "nights").iterdir()) == ["2.html", "3.html"]
    assert 'href="nights/1.html"' not in night.page("nights.html")
    assert "causes 1" not in night.page() and night.page().count("not confirmed") == 1


def test_a_site_does_not_take_the_place_of_something_else(night: Nights) -> None:
    (night.folder / "mine").mkdir()
    (night.folder / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else than a site"):
        nightly(Settings(state=str(night.state)), NightOptions("", 1, site=str(night.folder / "mine")), {})


def test_states_of_public_issues_are_read(night: Nights) -> None:
    own = night.folder / "issues.toml"
    own.write_text(
        '[[issue]]\nid = "pytorch/pytorch#200123"\nstate = "open"\nchecked = 2026-11-30\nfindings = ["aaaa"]\n'
    )
    wanted = NightOptions(night.python(1, "ab"), 1, issues=str(own))
    nightly(night.settings(), wanted, {})
    bugs = night.page("bugs.html")
    assert "pytorch/pytorch#200123" in bugs and "open" in bugs and "2026-11-30" in bugs
    assert bugs.index("Not public") < bugs.index("findings/bbbbbbbbbbbb")


def test_the_end_of_a_night_is_an_event(night: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    night(1, "ab")
    capsys.readouterr()
    assert night(2, "ac", shows=0, settings={"json": True}) == Exit.FINDINGS
    said = capsys.readouterr()
    (line,) = map(json.loads, said.out.splitlines())
    jsonschema.validate(line, SCHEMA)
    assert (line["new"], line["back"], line["fixed"]) == (["c" * 12], [], ["b" * 12])
    assert (line["night"], line["causes"], line["exit_code"]) == (2, 2, 1) and "FIXED" in said.err


def test_options_are_passed_on_as_they_were_given() -> None:
    given = {"seed": "3", "only": ["seeds", "operators"], "quiet": True, "device": None, "max_time": "2h"}
    assert options(given) == [
        "--seed", "3", "--only", "seeds", "--only", "operators", "--quiet", "--max-time", "2h"
    ]  # fmt: skip
