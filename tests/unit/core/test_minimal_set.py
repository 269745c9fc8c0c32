"""The smallest set with the same coverage."""

from __future__ import annotations

import random

from fxmorph.core.minimal_set import Candidate, minimal_set


def candidate(covers: str, cost: float = 1.0, kept: bool = False) -> Candidate[str]:
    return Candidate(frozenset(covers), cost, kept)


def chosen(*candidates: Candidate[str]) -> list[tuple[int, str]]:
    return [(choice.index, "".join(sorted(choice.adds))) for choice in minimal_set(candidates)]


def test_nothing_is_chosen_of_nothing() -> None:
    assert chosen() == [] == chosen(candidate(""))


def test_what_adds_nothing_is_left_out() -> None:
    assert chosen(candidate("a"), candidate("abc"), candidate("bc")) == [(1, "abc")]


def test_of_equals_the_first_counts() -> None:
    assert chosen(candidate("ab"), candidate("ab")) == [(0, "ab")]


def test_what_covers_more_for_its_cost_comes_first() -> None:
    assert chosen(candidate("abc", cost=9.0), candidate("ab"), candidate("c")) == [(1, "ab"), (2, "c")]


def test_what_is_kept_comes_first_whatever_it_adds() -> None:
    assert chosen(candidate("abc"), candidate("a", kept=True), candidate("", kept=True)) == [
        (1, "a"), (2, ""), (0, "bc"),
    ]  # fmt: skip


def test_what_later_choices_cover_is_left_out_again() -> None:
    # Greedy takes the four first, and then both others, which hold them.
    assert chosen(candidate("bcde"), candidate("abc"), candidate("def")) == [(1, "abc"), (2, "def")]


def test_it_covers_all_and_no_choice_is_superfluous() -> None:
    rng = random.Random(0)
    items = "abcdefghijklmnop"
    for _ in range(200):
        given = [candidate("".join(rng.sample(items, rng.randrange(6))), rng.random() + 0.01) for _ in range(12)]
        choices = minimal_set(given)
        covered = frozenset().union(*(c.covers for c in given))
        assert frozenset().union(*(given[c.index].covers for c in choices)) == covered
        for choice in choices:
            others = (given[c.index].covers for c in choices if c is not choice)
            assert frozenset().union(*others) != covered
