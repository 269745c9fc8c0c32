"""Kinds of cases side by side."""

from __future__ import annotations

from collections.abc import Iterator

from fxmorph.campaign.time_shares import Lane, mixed


def named(name: str, number: int) -> Iterator[str | None]:
    return (f"{name}{i}" for i in range(number))


def test_time_is_given_by_shares_and_costs() -> None:
    jobs = list(mixed([Lane(named("cheap", 400), 1.0, 0.5), Lane(named("dear", 400), 4.0, 0.5)]))
    first = jobs[:100]
    assert sum(str(j).startswith("dear") for j in first) == 20
    assert len(jobs) == 800 and len(set(jobs)) == 800


def test_jobs_of_a_lane_may_cost_otherwise() -> None:
    dear = Lane(named("b", 90), lambda job: 8.0 if job == "b0" else 1.0, 0.5)
    jobs = [str(job)[0] for job in mixed([Lane(named("a", 90), 1.0, 0.5), dear])]
    assert "".join(jobs[:10]) == "abaaaaaaaa"[:10]
    assert jobs[10:20].count("b") == 5


def test_a_lane_that_has_ended_leaves_its_time_to_the_others() -> None:
    jobs = list(mixed([Lane(named("a", 2), 1.0, 0.9), Lane(named("b", 5), 1.0, 0.1)]))
    assert jobs[-3:] == ["b2", "b3", "b4"]


def test_all_wait_with_a_lane_that_waits() -> None:
    come = False

    def waiting() -> Iterator[str | None]:
        while not come:
            yield None
        yield "late"

    jobs = mixed([Lane(waiting(), 1.0, 0.5), Lane(named("b", 1), 1.0, 0.5)])
    assert [next(jobs), next(jobs)] == [None, None]  # the order may not depend on when answers come
    come = True
    assert list(jobs) == ["late", "b0"]


def test_a_lane_that_comes_after_another_does_not_catch_up() -> None:
    first = Lane(named("first", 30), 1.0, 0.5)
    later = Lane(named("later", 30), 1.0, 0.25, after=first)
    jobs = [str(job) for job in mixed([first, later, Lane(named("b", 200), 1.0, 0.5)])]
    begun = jobs.index("later0")
    assert "first29" in jobs[:begun]
    assert sum(job.startswith("later") for job in jobs[begun : begun + 30]) == 10
