"""In which order units come to graphs that are made from their code."""

from __future__ import annotations

from typing import Any

from fxmorph.campaign.jobs import JudgePasses
from fxmorph.campaign.unit_schedule import CRASHES, Cost, UnitSchedule
from fxmorph.core.pool import Ended
from fxmorph.core.units import Stage, Unit, kind_of
from fxmorph.events import Warned
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.rung import MADE_TURNS, Chosen, Source

WHOLE, RULE, OFF = "joint.fold", "post_grad.remove_noop_ops/add", "post_grad.reorder"


def unit(name: str, default: bool) -> Unit:
    return Unit(name, Stage(name.partition(".")[0]), kind_of(name), "m", default, "", "all", True)


UNITS = (unit(OFF, False), unit(RULE, True), unit(WHOLE, True))
NAMES = tuple(u.name for u in UNITS)


def schedule_of(campaign: Any) -> UnitSchedule:
    schedule = UnitSchedule(campaign.settings, (), campaign.ledger, campaign.queue, campaign.told.append)
    schedule.told(Chosen(UNITS, NAMES))
    return schedule


def made_jobs(campaign: Any) -> list[JudgePasses]:
    return list(schedule_of(campaign)._made(NAMES))


def test_more_graphs_are_made_once_all_that_run_by_default_had_some(campaign: Any) -> None:
    jobs = made_jobs(campaign)
    order = [(job.source.made, job.source.turn) for job in jobs]
    assert order == [(WHOLE, 0), (RULE, 0), (WHOLE, 1), (OFF, 0), (RULE, 1), (OFF, 1)]
    assert len({job.source.label for job in jobs}) == len(jobs)


def test_the_second_turn_makes_more_and_counts_as_dearer(campaign: Any) -> None:
    first, *_, last = made_jobs(campaign)
    (seconds, graphs), (more_seconds, more_graphs) = MADE_TURNS
    assert seconds < more_seconds and graphs < more_graphs
    assert Cost().of(first) < Cost().of(last)


def test_a_unit_that_crashes_again_and_again_is_left_out(campaign: Any) -> None:
    schedule = schedule_of(campaign)
    graphs = [Source(derived=Derived(RULE, "", (), "expression", change=str(n))) for n in range(CRASHES)]
    for told, graph in enumerate(graphs):
        assert RULE not in schedule._job(Source(made=WHOLE)).skip, told
        schedule.hear(Ended(schedule._job(graph), None, "crash", phase=RULE, detail="signal 11"))
    assert RULE in schedule._job(Source(made=WHOLE)).skip
    assert RULE not in [job.source.made for job in schedule._made(NAMES)]
    schedule._derived.append(graphs[0].derived)
    assert schedule._urgent(0, late=False) is None
    said = [e.message for e in campaign.told if isinstance(e, Warned)]
    assert len(said) == CRASHES + 1 and "left out" in said[-1]


def test_a_source_is_tried_again_without_the_unit_that_crashed_on_it(campaign: Any) -> None:
    schedule = schedule_of(campaign)
    job = schedule._job(Source(samples=0))
    schedule.hear(Ended(job, None, "crash", phase=WHOLE, detail="signal 11"))
    again = schedule._urgent(0, late=False)
    assert again.source == job.source and again.skip == (WHOLE,)
