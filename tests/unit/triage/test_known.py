"""Findings that match a public issue are known, and only those."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fxmorph.core.finding_parts import Reduced, UnitCase
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.known import Known, KnownIssue, load_known

FINDING = Finding(
    "f", "c", "seed.py", "", (Kind.VALUE, Kind.STRIDE), BugClass.UGO, "inductor", "post_grad.remove_noop_ops",
    "seed-miscompiled", "0123", "", "", reduced=Reduced(operations=("copy_", "slice", "add")),
)  # fmt: skip
WHOLE: dict[str, Any] = {
    "stage": "inductor",
    "unit": "post_grad",
    "operations": ("copy_", "slice"),
    "kinds": ("value",),
    "torch": ("2.13",),
}


def match(**parts: Any) -> str:
    return Known((KnownIssue("pytorch/pytorch#1", "t", **parts),)).match(FINDING, "2.13.0")


def test_all_that_is_given_must_agree() -> None:
    assert match(**WHOLE) == "pytorch/pytorch#1"


@pytest.mark.parametrize(
    "other",
    [
        {"stage": "aot"},
        {"unit": "lowering"},
        {"operations": ("copy_", "roll")},
        {"kinds": ("alias",)},
        {"torch": ("2.14", "2.15")},
        {"fingerprint": "9999"},
        {"sort": "permutation"},
    ],
)
def test_one_part_that_differs_makes_it_unknown(other: dict[str, Any]) -> None:
    assert match(**{**WHOLE, **other}) == ""


def test_whether_something_is_written_and_what_a_pattern_overlooks_count() -> None:
    near = replace(FINDING, unit_case=UnitCase(operations=("add",), sort="permutation"))
    known = Known((KnownIssue("a", "t", writes=True), KnownIssue("b", "t", sort="permutation")))
    assert (known.match(FINDING, "2.13.0"), known.match(near, "2.13.0")) == ("a", "b")


def test_a_fingerprint_alone_decides() -> None:
    assert match(fingerprint="0123") == "pytorch/pytorch#1"


def test_the_first_match_counts() -> None:
    issues = tuple(KnownIssue(id, "t", operations=ops) for id, ops in (("a", ("roll",)), ("b", ("add",)), ("c", ())))
    assert Known(issues).match(FINDING, "2.13.0") == "b"


def test_the_shipped_table_is_well_formed_and_says_something_of_each() -> None:
    for issue in load_known().issues:
        assert issue.id.startswith("pytorch/pytorch#") and issue.id.rpartition("#")[2].isdigit(), issue.id
        assert issue.title
        assert issue.fingerprint or issue.operations or issue.unit, f"{issue.id} would match everything"
        assert set(issue.kinds) <= {str(k) for k in Kind}


def test_a_finding_of_nothing_known_matches_nothing_shipped() -> None:
    other = replace(FINDING, kinds=(Kind.CRASH,), unit="", reduced=Reduced(operations=("no_such_operation",)))
    assert load_known().match(other, "2.13.0") == ""
