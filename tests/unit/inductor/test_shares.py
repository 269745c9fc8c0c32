"""Sources of programs that take turns: their shares, what comes first, what is tried however long it takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from fxmorph.inductor.firing.budget import Budget
from fxmorph.inductor.firing.frontier import Frontier
from fxmorph.inductor.firing.shares import Source, in_shares, of_each
from fxmorph.inductor.firing.small_program import In, SmallProgram, Step

ALWAYS = math.inf


def called(name: str) -> SmallProgram:
    return SmallProgram((), (), (), name)


def many(name: str, count: float = math.inf) -> Iterator[SmallProgram]:
    return (called(f"{name}{i}") for i in itertools.takewhile(lambda i: i < count, itertools.count()))


def order(sources: list[Source], count: int, work: float = 1.0) -> str:
    found = ""
    for source, program in itertools.islice(in_shares(sources, lambda source: True), count):
        source.work = work if program.made.startswith("b") else 1.0
        found += program.made[0]
    return found


def test_shares_are_kept() -> None:
    found = order([Source(many("a"), lambda: 3.0), Source(many("b"), lambda: 1.0)], 40)
    assert found.count("a") == 30 and "aaaa" not in found


def test_what_is_more_work_comes_less_often() -> None:
    found = order([Source(many("a"), lambda: 1.0), Source(many("b"), lambda: 1.0)], 40, work=4.0)
    assert found.count("b") == 8


def test_what_was_not_wanted_saves_no_turns() -> None:
    wanted = {"b": 0.0}
    turns = in_shares([Source(many("a"), lambda: 1.0), Source(many("b"), lambda: wanted["b"])], lambda source: True)
    assert {p.made[0] for _, p in itertools.islice(turns, 20)} == {"a"}
    wanted["b"] = 1.0
    assert [p.made[0] for _, p in itertools.islice(turns, 10)].count("b") == 5


def test_an_endless_share_comes_first_and_a_late_start_last() -> None:
    sources = [Source(many("a"), lambda: 1.0, start=4.0), Source(many("b"), lambda: 1.0)]
    assert order([*sources, Source(many("c", 3), lambda: ALWAYS)], 9) == "cccbbbbab"


def test_what_is_empty_for_now_may_have_more_later() -> None:
    some: list[int] = []
    turns = in_shares([Source(of_each(some, lambda i: many(f"{i}", 2)), lambda: 1.0)], lambda source: True)
    assert next(turns, None) is None
    some += [7, 8]
    turns = in_shares([Source(of_each(some, lambda i: many(f"{i}", 2)), lambda: 1.0)], lambda source: True)
    assert [p.made for _, p in turns] == ["70", "80", "71", "81"]


def test_as_much_is_made_of_the_first_as_others_are_begun_with() -> None:
    made = of_each([1, 2, 3], lambda i: many(f"{i}-"), at_once=False)
    assert [p.made for p in itertools.islice(made, 6) if p] == ["1-0", "1-1", "2-0", "1-2", "2-1", "3-0"]


def test_some_are_tried_however_long_it_takes() -> None:
    source = Source(many("a"), lambda: 1.0, sure=3)
    assert len(list(in_shares([source], lambda each: each.given < each.sure))) == 3


def test_a_budget_of_graphs_is_none_of_time() -> None:
    budget = Budget(graphs=100)
    assert budget.lasts(99) and not budget.lasts(100)
    assert budget.part(0.5, 40).graphs == 30
    assert not Budget(seconds=-1.0).lasts(0) and Budget(seconds=60.0).lasts(10**9)


def test_what_was_read_on_grows_before_what_led_nowhere() -> None:
    frontier = Frontier(lambda program: many(program.made, 2))
    grown = frontier.grown()
    assert next(grown) is None
    frontier.add(called("nowhere"), False)
    frontier.add(called("on"), True)
    frontier.add(SmallProgram((), (Step("call_function", len, (In(0),)),) * 4, (), "long"), False)
    found = [p.made for p in itertools.islice(grown, 6) if p is not None]
    assert found == ["on0", "on1", "nowhere0", "nowhere1"]
