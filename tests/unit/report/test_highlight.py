"""Texts of a page: colours, differences, links to issues; whatever they hold is no markup."""

from __future__ import annotations

import re

import pytest

from fxmorph.report.highlight import MOST_COLOURED, coloured, difference, issues_linked


def plain(markup: str) -> str:
    return re.sub(r"<[^>]+>", "", markup).replace("&lt;", "<").replace("&gt;", ">").replace("&#34;", '"')


def test_a_program_has_colours_and_stays_what_it_was() -> None:
    text = 'def fn(x):\n    # <b>\n    return x < 2, "a"\n'
    made = coloured("repro.py", text)
    assert '<span class="s-k">def</span>' in made
    assert '<span class="s-m">2</span>' in made
    assert "<b>" not in made
    assert plain(made) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("notes.unheard_of", "<i>x</i>"), ("long.py", "<i>" + "x = 1\n" * (MOST_COLOURED // 6 + 1))],
    ids=["another kind of file", "too long"],
)
def test_other_texts_stay_plain(name: str, text: str) -> None:
    made = coloured(name, text)
    assert "<span" not in made
    assert plain(made) == text


def test_only_what_changed_is_in_a_difference() -> None:
    before = "\n".join(f"line {i}" for i in range(20))
    made = difference(before, before.replace("line 9", "<other>"))
    assert '<span class="d-old">-line 9</span>' in made
    assert '<span class="d-new">+&lt;other&gt;</span>' in made
    assert "line 5" not in made
    assert difference(before, before) == ""


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("as pytorch/pytorch#197039 says", ["pytorch/issues/197039"]),
        ("(pytorch 91469)", ["pytorch/issues/91469"]),
        ("out0: 1013 of 1024 elements, pytorch 2.13", []),
        ("<script>pytorch/ao#1234", ["ao/issues/1234"]),
    ],
    ids=["whole", "short", "other numbers", "of another repository"],
)
def test_issues_are_links(text: str, links: list[str]) -> None:
    made = issues_linked(text)
    assert re.findall(r'href="https://github.com/pytorch/([^"]+)"', made) == links
    assert "<script>" not in made
    assert plain(made) == text
