"""docs/known-issues.md says what is so."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from fxmorph.core.exits import ReproExit
from fxmorph.core.units import Stage
from fxmorph.triage.known import exact_match, likeness, public_index
from fxmorph.triage.known.known_issues import KnownIssue, load_known

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "known-issues.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found
    return found[1]


def test_exit_codes_are_those_of_mended_repros() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d) \|", PAGE, re.M)}
    assert codes == {
        ReproExit.GONE, ReproExit.STILL_THERE, ReproExit.BREAKS, ReproExit.NO_MEND, ReproExit.NOT_BY_THE_MEND
    }  # fmt: skip


def test_the_entry_shown_is_the_shipped_one() -> None:
    (entry,) = tomllib.loads(block("toml"))["issue"]
    shown = KnownIssue(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
    assert shown in load_known().issues


def test_the_line_shown_is_one_of_the_index() -> None:
    shown = public_index.PublicIssue.of_line(json.loads(block("json")))
    assert shown.number in {issue.number for issue in public_index.load_index().issues}


def test_numbers_are_those_of_the_code() -> None:
    weights = likeness.WEIGHTS
    for said in (f"operators ({weights['operators']:.2f}", f"unit ({weights['unit']:.2f})",
                 f"kinds ({weights['kind']:.2f})", f"stage ({weights['stage']:.2f})",
                 f"bug class ({weights['class']:.2f})",
                 f"add up to {likeness.WORDS}, of {1 + likeness.WORDS} in all",
                     f"At most {likeness.MOST} candidates of {likeness.LEAST}",
                 f"at most {exact_match.MOST_RUNS}, a fresh process"):  # fmt: skip
        assert said in PAGE, said
    told = set(re.findall(r"`(\w+)`", PAGE.partition("`stage` is one of ")[2].partition(";")[0]))
    assert told | {"freezing"} == {*map(str, Stage)}


def test_files_that_it_names_are_there() -> None:
    for path in re.findall(r"`((?:fxmorph|tests|bench)/[\w/.-]+\.\w+)`", PAGE):
        assert (ROOT / path).is_file(), path
