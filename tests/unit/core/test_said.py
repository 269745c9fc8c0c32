"""Messages are cut between words."""

from __future__ import annotations

import pytest

from fxmorph.core.said import cut, said


@pytest.mark.parametrize(
    ("text", "most", "line"),
    [
        ("as  it\n is", 20, "as it is"),
        ("exactly ten", 11, "exactly ten"),
        ("expected (4, 2), got something else", 18, "expected (4, 2) …"),
        ("a list (of things", 10, "a list …"),
        ("one " + "x" * 30, 12, "one xxxxxx …"),
    ],
    ids=["one line", "it fits", "between words", "no open bracket at the end", "a word longer than all"],
)
def test_a_line_ends_between_words(text: str, most: int, line: str) -> None:
    assert cut(text, most) == line
    assert len(line) <= most


def test_an_exception_says_its_type_first() -> None:
    assert said(KeyError("a b")) == "KeyError: 'a b'"
