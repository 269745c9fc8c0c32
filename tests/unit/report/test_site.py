"""The site of nights: what it is made of and what its pages say; test_site_browser.py opens them in a browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from nightstate import GOES, LATE, RETURNS, STAYS, TORCH, made_site, make_nights
from test_report_page import Tags

from fxmorph.core.config import ConfigError
from fxmorph.core.store import Store
from fxmorph.report.collect import collect
from fxmorph.report.history import Cause, Turn, causes, night_rows
from fxmorph.report.site import require_site
from fxmorph.triage.known.public_states import read_states


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_site(tmp_path_factory.mktemp("nightly"))


def found(state: Path) -> dict[str, Cause]:
    with Store(state, write=False) as store:
        return {cause.finding.id: cause for cause in causes(collect([state]), store.nights())}


def said(cause: Cause) -> tuple[str, str, str]:
    fixed = cause.fixed_in
    return cause.first_seen.torch, cause.last_seen.torch, fixed.torch if fixed else ""


def test_three_nights_say_since_when_and_until_when_a_cause_shows(tmp_path: Path) -> None:
    history = found(make_nights(tmp_path))
    assert {id: said(cause) for id, cause in history.items()} == {
        STAYS: (TORCH[0], TORCH[2], ""),
        GOES: (TORCH[0], TORCH[1], TORCH[2]),
        RETURNS: (TORCH[0], TORCH[2], ""),
        LATE: (TORCH[2], TORCH[2], ""),
    }
    turns = [(sighting.night, turn) for sighting, turn in history[RETURNS].turns()]
    assert turns == [(1, Turn.NEW), (2, Turn.FIXED), (3, Turn.BACK)]


def test_after_two_nights_the_third_is_not_known(tmp_path: Path) -> None:
    history = found(make_nights(tmp_path, 2))
    assert said(history[GOES]) == (TORCH[0], TORCH[1], "") and said(history[RETURNS])[2] == TORCH[1]
    assert LATE not in history


def test_nights_are_counted(tmp_path: Path) -> None:
    state = make_nights(tmp_path)
    with Store(state, write=False) as store:
        rows = night_rows(list(found(state).values()), store.nights())
    counted = [(row.night.number, row.there, *map(len, row.turned.values())) for row in rows]
    assert counted == [(3, 3, 1, 1, 1), (2, 2, 0, 0, 1), (1, 3, 3, 0, 0)]


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_pages_are_whole_and_load_nothing(site: Path) -> None:
    assert len(pages(site)) == 3 + 3 + 4
    for page in pages(site):
        tags = Tags()
        tags.feed(page.read_text(encoding="utf-8").replace("<br>", "").replace("<wbr>", ""))
        assert tags.open == [], page
        assert not [t for t, a in tags.seen if t in ("img", "iframe", "object") or a.get("src")]
        assert {a["href"] for t, a in tags.seen if t == "link"} == {"data:,"}


def links(page: Path) -> Sequence[str]:
    tags = Tags()
    tags.feed(page.read_text(encoding="utf-8").replace("<br>", "").replace("<wbr>", ""))
    return [a["href"] or "" for t, a in tags.seen if t == "a"]


def test_links_lead_somewhere(site: Path) -> None:
    outside = set()
    for page in pages(site):
        for link in links(page):
            parts = urlsplit(link)
            if parts.scheme:
                outside.add(link)
            elif parts.path:
                assert (page.parent / parts.path).is_file(), (page, link)
    issues = "https://github.com/pytorch/pytorch/issues"
    assert outside == {f"{issues}/189518", f"{issues}/195320"}


def row_of(text: str, id: str) -> str:
    return re.sub(r"<[^>]+>", " ", text.partition(f'id="{id}"')[2].partition("</tr>")[0])


def test_findings_are_listed_by_cause(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert all(word in row_of(text, GOES) for word in ("2026-11-01", "2026-11-02", "2026-11-03", "189518", "softmax"))
    assert "2026-11-03" in row_of(text, STAYS) and "fixed" not in row_of(text, STAYS)
    assert "likely pytorch/pytorch#195320" in row_of(text, RETURNS)
    assert re.findall(r'id="(\w+)" data-state="([\w ]+)"', text) == [
        (LATE, "new"), (STAYS, "still there"), (RETURNS, "back"), (GOES, "fixed")
    ]  # fmt: skip
    assert "Night 3, 2026-11-03" in text and "not confirmed" in text


def test_public_bugs_have_their_state_and_its_day(site: Path) -> None:
    text = (site / "bugs.html").read_text(encoding="utf-8")
    public, _, rest = text.partition("Not public")
    assert "fixed in torch 2.14" in public and "2026-11-29" in public and f"findings/{GOES}/" in public
    assert f"findings/{STAYS}/" in rest and f"findings/{GOES}/" not in rest


def test_nights_say_what_ended_them_and_what_changed(site: Path) -> None:
    text = (site / "nights.html").read_text(encoding="utf-8")
    assert "killed by SIGKILL" in row_of(text, "night-2") and "killed" not in row_of(text, "night-3")
    assert GOES[:8] in row_of(text, "night-3") and RETURNS[:8] in row_of(text, "night-2")


def test_a_page_of_a_finding_has_its_files_beside_it(site: Path) -> None:
    place = site / "findings" / GOES
    text = (place / "index.html").read_text(encoding="utf-8")
    for name in ("repro.py", "issue.md", f"test_{GOES}.py", "finding.json"):
        assert (place / name).is_file() and f'<a href="{name}" download>' in text
    assert "python repro.py" in text and "fxmorph replay" not in text
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_what_is_gone_from_the_store_goes_from_the_site(tmp_path: Path) -> None:
    made = made_site(tmp_path)
    (made / "findings" / "gone").mkdir()
    (made / "nights" / "99.html").write_text("old")
    made_site(tmp_path, make=False)
    assert not (made / "findings" / "gone").exists() and not (made / "nights" / "99.html").exists()
    require_site(made)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else"):
        require_site(tmp_path)
    require_site(tmp_path / "not there yet")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[issue", "issues.toml: "),
        ("what = 1", r"want tables, as \[\[issue\]\]"),
        ("issue = [1]", r"issue 1: want a table"),
        ('[[issue]]\nid = "189518"', "issue 1: want id, as pytorch/pytorch#189518, got '189518'"),
        ('[[issue]]\nid = "a/b#1"\nstat = "open"', "issue 1: unknown key 'stat'"),
        ('[[issue]]\nid = "a/b#1"\nstate = "new"', "issue 1: state: want open or closed, got 'new'"),
        ('[[issue]]\nid = "a/b#1"\nchecked = "today"', "issue 1: checked: want date, got 'today'"),
        ('[[issue]]\nid = "a/b#1"\nfindings = [""]', "issue 1: findings: want ids of findings"),
    ],
)
def test_a_list_of_issues_that_is_wrong_is_refused_in_a_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "issues.toml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_states(tmp_path / "issues.toml")


def test_a_list_of_yours_goes_before_the_shipped_one(tmp_path: Path) -> None:
    own = tmp_path / "issues.toml"
    own.write_text('[[issue]]\nid = "pytorch/pytorch#189518"\nstate = "closed"\nchecked = 2026-12-01\n')
    states = read_states(own)
    assert str(states.of_issue("pytorch/pytorch#189518")) == "closed, fixed in torch 2.14"
    assert states.of_issue("pytorch/pytorch#189518").checked == "2026-12-01"
    assert str(states.of_issue("other/project#7")) == "no fix known"
    assert states.of_issue("other/project#7").link == "https://github.com/other/project/issues/7"
