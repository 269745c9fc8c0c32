"""In which order units come to graphs that are made from their code."""

from __future__ import annotations

from typing import Any

from fxmorph.campaign.jobs import JudgePasses
from fxmorph.campaign.unit_schedule import Cost, UnitSchedule
from fxmorph.core.units import Stage, Unit, kind_of
from fxmorph.inductor.rung import MADE_TURNS, Chosen

WHOLE, RULE, OFF = "joint.fold", "post_grad.remove_noop_ops/add", "post_grad.reorder"


def unit(name: str, default: bool) -> Unit:
    return Unit(name, Stage(name.partition(".")[0]), kind_of(name), "m", default, "", "all", True)


def made_jobs(campaign: Any) -> list[JudgePasses]:
    schedule = UnitSchedule(campaign.settings, (), campaign.ledger, campaign.queue, campaign.told.append)
    units = (unit(OFF, False), unit(RULE, True), unit(WHOLE, True))
    schedule.told(Chosen(units, tuple(u.name for u in units)))
    return list(schedule._made(tuple(u.name for u in units)))


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
