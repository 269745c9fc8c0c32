"""Proposals come in the order of what they add."""

from __future__ import annotations

from dataclasses import replace

from fxmorph.campaign.ideas import PROMISING, Idea, Ideas, promising
from fxmorph.model import Seed
from fxmorph.rules import Registry, Rule


def idea(name: str, fires: str) -> Idea:
    return Idea(Seed(path=f"{name}.py", form="module", hash=name), frozenset(fires))


def names(ideas: list[Idea]) -> str:
    return "".join(i.what.hash for i in ideas if isinstance(i.what, Seed))


def test_what_adds_most_comes_first_and_what_adds_nothing_last_in_order() -> None:
    ideas = Ideas()
    ideas.add([idea("z", ""), idea("a", "12"), idea("b", "1234"), idea("c", "345"), idea("d", "6"), idea("y", "1")])
    assert names(ideas.next(10, ())) == "bcdzay"
    assert not ideas and ideas.next(1, ()) == []


def test_what_has_fired_does_not_count_and_the_rest_stays() -> None:
    ideas = Ideas()
    ideas.add([idea("a", "123"), idea("b", "45"), idea("c", "6")])
    assert names(ideas.next(2, "123")) == "bc"
    ideas.add([idea("d", "7")])
    assert names(ideas.next(2, "123456")) == "da"


def test_rules_that_add_units_are_promising_until_these_have_fired() -> None:
    rules = Registry()
    for i in range(PROMISING + 5):
        rules.add(Rule(f"proposed_{i:02}", abs, abs, {"x": "..."}, "", fires=frozenset({f"unit {i}"})))
    rules.add(replace(rules["proposed_07"], fires=frozenset({"unit 7", "another"})))
    found = promising(rules, {"unit 0"})
    assert found[:2] == ("proposed_07", "proposed_01") and "proposed_00" not in found and len(found) == PROMISING
    assert promising(rules, {"another", *(f"unit {i}" for i in range(PROMISING + 5))}) == ()
