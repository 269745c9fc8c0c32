"""Texts on a page: programs in colours, what a rewrite or a pass changed in one, public issues as links."""

from __future__ import annotations

import re
from difflib import unified_diff

from markupsafe import Markup, escape
from pygments import lex
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

#: Longer texts stay without colours, which take three times the room.
MOST_COLOURED = 12_000
#: What has a colour; the rest, names and signs above all, stays plain.
_COLOURS = {
    Keyword: "k", Operator.Word: "k", Name.Function: "f", Name.Class: "f", String: "s", Number: "m", Comment: "c",
    Name.Decorator: "k",
}  # fmt: skip
_ISSUE = re.compile(r"\b(?:pytorch/)?(pytorch|ao|vision|audio)(?:/\1)?(?:#| )(\d{3,6})\b")
_WORDS = {"+": "new", "-": "old", "@": "place"}


def coloured(name: str, text: str) -> Markup:
    """``text`` of a file of that name, in spans whose classes the page's style sheet knows."""
    try:
        lexer = get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(text)
    if len(text) > MOST_COLOURED:
        return escape(text)
    made = []
    for token, value in lex(text, lexer):
        colour = next((word for kind, word in _COLOURS.items() if token in kind), "")
        made.append(Markup('<span class="s-{}">{}</span>').format(colour, value) if colour else escape(value))
    return Markup("").join(made)


def difference(before: str, after: str) -> Markup:
    """What became of ``before``, with three lines around each change; "" where nothing did."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    return Markup("\n").join(
        Markup('<span class="d-{}">{}</span>').format(_WORDS[line[0]], line) if line[:1] in _WORDS else escape(line)
        for line in lines
    )


def issues_linked(text: str) -> Markup:
    """``text`` in which ``pytorch/pytorch#197039`` and ``pytorch 197039`` lead to the issue."""
    made, at = Markup(""), 0
    for found in _ISSUE.finditer(text):
        made += escape(text[at : found.start()])
        made += Markup('<a href="https://github.com/pytorch/{}/issues/{}">{}</a>').format(found[1], found[2], found[0])
        at = found.end()
    return made + escape(text[at:])
