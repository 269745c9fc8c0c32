"""The shipped packs of rules: every line is of the form, every name is used once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import fxmorph.corpus
import pytest

from fxmorph.model import BugClass
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.proposal import Line, RuleProposal, Unsupported, read_pack, read_text

PACKS = sorted(Path(next(iter(fxmorph.corpus.__path__))).glob("proposals/rules_*.jsonl"))
LINES = [line for pack in PACKS for line in read_pack(pack)]


def malformed(lines: list[Line]) -> list[str]:
    """What is wrong with lines, each with its place; operations that are not on the allow-list are not."""
    out = []
    for line in lines:
        try:
            if isinstance(line.proposal, RuleProposal):
                build_rule(line.proposal, line.source)
            else:
                out.append(f"{line.source}: {line.error or 'no rule'}")
        except Unsupported:
            continue
        except ValueError as error:
            out.append(f"{line.source}: {error}")
    return out


def test_every_line_is_a_rule_of_the_form() -> None:
    assert malformed(LINES) == []


def test_names_are_used_once() -> None:
    names = Counter(line.proposal.name for line in LINES if line.proposal is not None)
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) >= 480


def test_all_bug_classes_are_aimed_at() -> None:
    aims = {line.proposal.aims for line in LINES if line.proposal is not None}
    assert {c.value for c in BugClass} <= aims


RULE = '{"task": "rule", "name": "%s", "doc": "d", "aims": "kc", "args": {"x": "n"}, "before": "-x", "after": "%s"}'


@pytest.mark.parametrize(
    ("name", "after", "said"),
    [("x y", "x", "name"), ("a", "y", "'y'"), ("a", "-", "after"), ("a", "x.__class__", "after")],
)
def test_a_slip_of_form_is_found(name: str, after: str, said: str) -> None:
    found = malformed([read_text(RULE % (name, after), "pack:1")])
    assert len(found) == 1 and said in found[0]
