"""What is known, and that nothing hides behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_finding_queue import PROGRAM, STANDS, case_of, conclude, idle, investigated, made, next_job, see

from fxmorph.campaign import jobs
from fxmorph.campaign.identification import TRIED_ALIKE
from fxmorph.core.exits import Exit
from fxmorph.core.finding_parts import Match, UnitCase
from fxmorph.core.pool import Ended
from fxmorph.model import Finding
from fxmorph.triage.folder.confirm import Confirmation

ISSUE = "pytorch/pytorch#1"
MATCH = Match(ISSUE, "gone with a local patch for #1: it is mended")


@pytest.fixture
def confirm(campaign: Any) -> Callable[..., None]:
    """Confirm what is next to be, as this match."""

    def confirmed(match: Match | None = None) -> None:
        job = next_job(campaign)
        assert isinstance(job, jobs.Confirm)
        campaign.queue.hear(Ended(job, (replace(STANDS, match=match), ())))

    return confirmed


def test_a_known_finding_says_by_what_and_does_not_count(campaign: Any, confirm: Any) -> None:
    case = case_of("s")
    conclude(campaign, case, investigated(case, "g"))
    confirm(MATCH)
    (told,) = made(campaign)
    assert (told.known, told.finding.known_by, campaign.queue.known, campaign.queue.new) == (ISSUE, MATCH.how, 1, ())
    assert campaign.store.findings()[0].known_by == MATCH.how


def test_what_a_release_has_fixed_is_a_finding_and_told_as_a_regression(campaign: Any, confirm: Any) -> None:
    case = case_of("s")
    conclude(campaign, case, investigated(case, "g"))
    confirm(replace(MATCH, fixed="2.14"))
    (told,) = made(campaign)
    assert (told.known, len(campaign.queue.new)) == ("", 1)
    assert f"a regression: {MATCH.how}, which torch 2.14 fixed" in told.finding.evidence[-1]


def test_a_mend_that_does_not_fit_is_told(campaign: Any, confirm: Any) -> None:
    case = case_of("s")
    conclude(campaign, case, investigated(case, "g"))
    confirm(Match(untried=("the mend of #1 was not tried: torch 3 has another f",)))
    (told,) = made(campaign)
    assert told.known == "" and told.finding.evidence[-1].endswith("torch 3 has another f")


@pytest.mark.parametrize(
    ("match", "known", "new"), [(MATCH, 1, 0), (Match(), 1, 1), (Match("pytorch/pytorch#2", "h"), 2, 0)]
)
def test_what_looks_like_a_known_finding_is_tried_for_itself(
    campaign: Any, confirm: Any, match: Match, known: int, new: int
) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    confirm(MATCH)
    conclude(campaign, second, investigated(second, "g", program=PROGRAM.replace("flip(0)", "flip(-1)")))
    confirm(match)
    assert (campaign.queue.known, len(campaign.queue.new), campaign.queue.duplicates) == (known, new, 2 - known - new)
    assert all(isinstance(next_job(campaign), jobs.WriteUp) for _ in campaign.queue.findings)
    assert idle(campaign)


def test_of_those_only_blamed_a_few_are_tried_as_they_were_found(campaign: Any, confirm: Any) -> None:
    first = case_of("s", 0)
    conclude(campaign, first, investigated(first, "g"))
    confirm(MATCH)
    for number in range(1, TRIED_ALIKE + 3):
        case = case_of("s", number)
        see(campaign, case, PROGRAM.replace("zeros(2)", f"zeros({number + 2})"))
        conclude(campaign, case, investigated(case, "g", program=""))
        if number <= TRIED_ALIKE:
            confirm(MATCH)
        assert campaign.queue.duplicates == number
    assert (campaign.queue.new, campaign.queue.known) == ((), 1)


# -- findings of units, which have their place before their repro is run ------------


def of_a_unit() -> Finding:
    from fxmorph.model import BugClass, Kind

    return Finding(
        "ab" * 6, "graph", "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", "joint.x", "", "ab" * 6, "off", "",
        unit_case=UnitCase("pass", operations=("flip",)),
    )  # fmt: skip


def written(folder: Path, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "known").write_text(finding.known)
    (folder / "repro.py").touch()


def test_a_finding_of_a_unit_is_told_once_its_repro_was_run(campaign: Any) -> None:
    campaign.queue.place(of_a_unit(), written)
    assert not made(campaign) and len(campaign.queue.new) == 1 and campaign.store.findings()
    job = next_job(campaign)
    assert isinstance(job, jobs.Identify) and Path(job.folder, "known").read_text() == ""
    campaign.queue.hear(Ended(job, (Confirmation(1, 1, "still there", match=MATCH), (("confirm", 2.0),))))
    (told,) = made(campaign)
    assert (told.known, campaign.queue.known, campaign.queue.new) == (ISSUE, 1, ())
    assert Path(told.folder, "known").read_text() == ISSUE and "a fresh process" in told.finding.evidence[-1]


def test_one_whose_repro_shows_nothing_is_no_finding(campaign: Any) -> None:
    campaign.queue.place(of_a_unit(), written)
    job = next_job(campaign)
    campaign.queue.hear(Ended(job, (Confirmation(0, 1, "gone"), ())))
    campaign.queue.amend(of_a_unit())
    assert not made(campaign) and not campaign.queue.new and not Path(job.folder).exists()
    assert (campaign.settings.state_dir / "unconfirmed" / of_a_unit().id / "repro.py").is_file()
    assert campaign.ledger.counts["unconfirmed"] == 1 and not campaign.store.findings()


def test_one_whose_repro_was_not_run_is_new(campaign: Any) -> None:
    campaign.queue.place(of_a_unit(), written)
    finished = campaign.finish()
    (told,) = made(campaign)
    assert (told.known, finished.exit_code, finished.findings) == ("", Exit.FINDINGS, (told.finding.id,))
