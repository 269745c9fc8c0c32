"""What ``fxmorph reduce`` takes up of a stored run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign.jobs import WriteUp
from fxmorph.campaign.leftover_schedule import LeftoverSchedule, leftovers, unchanged
from fxmorph.campaign.schedule import case_of
from fxmorph.core.finding_parts import Draft, Reduced, UnitCase
from fxmorph.core.seeds import find_seeds
from fxmorph.events import Warned
from fxmorph.model import BugClass, CaseResult, Finding, Kind, Rung, Seed, Status

SOURCE = "import torch\ndef make_inputs(): return [torch.ones(2)]\ndef fn(x): return x\n"


@pytest.fixture
def left(campaign: Any, tmp_path: Path) -> Any:
    """A run with a case only seen, one that was cut short, one of a unit, and one of which all is known."""
    (tmp_path / "s.py").write_text(SOURCE)
    (seed,) = find_seeds([str(tmp_path / "s.py")])[0]
    for number, name in enumerate(("seen", "short", "whole")):
        case = case_of(campaign.settings, seed, number, Rung.CPU)
        result = CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off by one", stage="inductor")
        campaign.ledger.add_result(number, case, result)
        finding = finding_of_case(name, case.id)
        campaign.ledger.add_finding(replace(finding, confirmed=name != "seen"), tmp_path / name)
    of_a_unit = finding_of_case("unit", "graph")
    unit_case = UnitCase(Rung.PASS.value)
    alone = replace(of_a_unit, program="", unit_case=unit_case, reduced=Reduced(finished=False))
    campaign.ledger.add_finding(alone, tmp_path / "unit")
    return campaign


def finding_of_case(name: str, case_id: str) -> Finding:
    return Finding(
        name, case_id, "s.py", "", (Kind.VALUE,), next(iter(BugClass)), "inductor", "", "seed-miscompiled", name, "off",
        "def fn(x): ...", reduced=Reduced(finished=name != "short"),
    )  # fmt: skip


def test_all_that_a_run_left_is_what_is_not_finished(left: Any) -> None:
    found = leftovers(left.store, left.run_id, None)
    assert [f.index for f in found.waiting] == [0, 1]
    assert [f.id for f in found.again.values()] == ["short"]
    assert [f.id for f in found.of_units] == ["unit"]
    assert found.asked == {found.waiting[0].case.id, found.waiting[1].case.id, "graph"}


def test_what_stands_without_a_draft_is_written_up(left: Any) -> None:
    found = leftovers(left.store, left.run_id, None)
    assert [(index, f.id) for index, _, f in found.undrafted] == [(2, "whole")]
    LeftoverSchedule(left.settings, [], [], found.undrafted, left.queue)
    job, _ = left.queue.next_job(60.0, cases_left=False)
    assert isinstance(job, WriteUp) and job.finding.id == "whole"
    assert not leftovers(left.store, left.run_id, {"whole"}).undrafted
    left.ledger.add_finding(replace(job.finding, draft=Draft()), Path(job.folder))
    assert not leftovers(left.store, left.run_id, None).undrafted


def test_of_findings_by_id_no_other_is_taken(left: Any) -> None:
    found = leftovers(left.store, left.run_id, {"whole"})
    assert [f.index for f in found.waiting] == [2]
    assert [f.id for f in found.again.values()] == ["whole"] and not found.of_units


def test_a_case_whose_seed_changed_is_left_out_and_told(left: Any, tmp_path: Path) -> None:
    found = leftovers(left.store, left.run_id, None)
    assert unchanged(found.waiting, left.told.append) == list(found.waiting) and not left.told
    (tmp_path / "s.py").write_text(SOURCE + "# edited\n")
    assert unchanged(found.waiting, left.told.append) == []
    assert all(isinstance(e, Warned) and "another than in the run" in e.message for e in left.told)


def test_its_cases_wait_in_the_queue_and_no_time_is_for_others(left: Any) -> None:
    found = leftovers(left.store, left.run_id, None)
    schedule = LeftoverSchedule(left.settings, [Seed("s.py", "module", "h")], found.waiting, (), left.queue)
    assert left.queue.wants(cases_left=False)
    assert not list(schedule.jobs()) and not schedule.until
