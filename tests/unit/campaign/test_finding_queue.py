"""What is made of cases that differ: one finding a cause, confirmed or told as it was seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign import jobs
from fxmorph.campaign.finding_queue import LEAST_SECONDS, LONGEST, MOST_SECONDS, ON_GPU, Effort, Found
from fxmorph.campaign.jobs import Manner
from fxmorph.core.exits import Exit
from fxmorph.core.finding_parts import Blame, Draft
from fxmorph.core.pool import Ended
from fxmorph.core.units import Stage
from fxmorph.events import FindingMade, Warned
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Seed, Status, ValuePlan
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.folder.confirm import Confirmation

PROGRAM = "def make_inputs():\n    return [torch.zeros(2)]\n\n\ndef fn(x):\n    a = x.flip(0)\n    return (a,)\n"
UNIT = "post_grad.reinplace_inplaceable_ops"
STANDS = Confirmation(3, 3, "differs", "gone")


def case_of(seed: str, number: int = 0) -> Case:
    return Case(Seed(f"{seed}.py", "module", seed), number, 0, (ValuePlan.SEED,), CompileConfig.make())


def differs(case: Case) -> CaseResult:
    return CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off by one", stage="inductor")


def conclude(campaign: Any, case: Case, got: Investigated | None) -> None:
    campaign.queue.hear(Ended(jobs.Investigate(0, case, differs(case), 60.0), got))


def investigated(case: Case, group: str, program: str = PROGRAM, skeleton: Any = (("flip", ()),)) -> Investigated:
    blame = Blame(Stage.POST_GRAD, UNIT, True, off=(UNIT,))
    config = {"backend": "inductor", "compile": {}, "inductor": {}, "dynamo": {}, "no_grad": False, "calls": 1,
              "device": "cpu", "context": "", "dtype": ""}  # fmt: skip
    check = {"exact": True, "rtol": 0.0, "atol": 0.0}
    return Investigated(
        case.id, program, (Kind.VALUE,), blame, "", (), ("flip",), "h", ("value of out0: off",), 1, 5, config, check,
        skeleton=skeleton if program else (), group=group,
    )  # fmt: skip


def next_job(campaign: Any) -> Any:
    job, _ = campaign.queue.next_job(left=campaign.settings.max_time, cases_left=True)
    return job


def confirm(
    campaign: Any, shown: Confirmation = STANDS, threads: int | None = None, garbage: bool | None = None
) -> jobs.Confirm:
    job = next_job(campaign)
    assert isinstance(job, jobs.Confirm)
    assert (job.finding.config.get("threads"), job.finding.config.get("garbage")) == (threads, garbage)
    campaign.queue.hear(Ended(job, (shown, ())))
    while campaign.queue._to_write_up:  # nothing comes of them
        campaign.queue.hear(Ended(campaign.queue._to_write_up.popleft(), None, "timeout"))
    return job


def made(campaign: Any) -> list[FindingMade]:
    return [e for e in campaign.told if isinstance(e, FindingMade)]


def idle(campaign: Any) -> bool:
    return not campaign.queue.wants(cases_left=False)


def test_a_case_that_was_only_blamed_is_a_duplicate_of_its_group(campaign: Any) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    (place,) = (campaign.settings.state_dir / "unconfirmed").iterdir()
    assert not (campaign.settings.state_dir / "findings").exists()
    confirm(campaign)
    one, other = made(campaign)
    assert idle(campaign)
    assert (one.duplicate_of, other.duplicate_of) == ("", one.finding.id)
    assert campaign.queue.duplicates == 1
    assert any("3 of 3 fresh processes" in line and "gone" in line for line in one.finding.evidence)
    assert Path(one.folder).parent.name == "findings" and not place.exists()
    assert {f.case_id for f in campaign.store.findings(duplicates=True)} == {first.id, second.id}


def test_what_is_confirmed_gets_a_report_when_nothing_is_left_to_confirm(campaign: Any) -> None:
    first, second = case_of("s", 0), case_of("t", 1)
    conclude(campaign, first, investigated(first, ""))
    conclude(campaign, second, investigated(second, "", skeleton=(("roll", ()),)))
    for _ in range(2):
        job = next_job(campaign)
        assert isinstance(job, jobs.Confirm)
        campaign.queue.hear(Ended(job, (STANDS, ())))
    reports = [next_job(campaign), next_job(campaign)]
    assert idle(campaign) and all(isinstance(job, jobs.WriteUp) for job in reports)
    draft = Draft(snippet="import torch\n", printed="eager: 1\ncompiled: 2")
    campaign.queue.hear(Ended(reports[0], (draft, (("confirm", 1.0),))))
    campaign.queue.hear(Ended(reports[1], None, "timeout"))
    stored = {f.id: f.draft for f in campaign.store.findings()}
    assert stored == {reports[0].finding.id: draft, reports[1].finding.id: None}
    texts = [Path(job.folder, "issue.md").read_text() for job in reports]
    assert ["compiled: 2" in text for text in texts] == [True, False]


# -- seen, and what is made of it ------------------------------------------------


def see(campaign: Any, case: Case, program: str = "") -> Path:
    """Judge the case so that it differs; where it lies as it was seen."""
    found = investigated(case, "", program, skeleton=()) if program else None
    campaign.hear(case.number, case, differs(case), found)
    (seen,) = (f for f in campaign.queue.seen if f.case_id == case.id)
    place: Path = campaign.queue.seen.place(seen)
    return place


def test_a_case_that_is_being_investigated_when_time_ends_is_a_finding(campaign: Any) -> None:
    case = case_of("s")
    place = see(campaign, case, PROGRAM)
    assert isinstance(next_job(campaign), jobs.Investigate)  # a worker has it
    finished = campaign.end()
    (told,) = made(campaign)
    (stored,) = campaign.store.findings()
    assert (finished.exit_code, finished.counts["uninvestigated"]) == (Exit.FINDINGS, 1)
    assert finished.findings == (told.finding.id,) == (stored.id,)
    assert not told.finding.confirmed and not stored.confirmed
    assert told.folder == str(place) and (place / "repro.py").is_file()


def test_what_is_seen_is_stored_at_once_and_read_again_by_a_run_that_goes_on(new_campaign: Any) -> None:
    case, before = case_of("s"), new_campaign()
    see(before, case)
    (stored,) = before.store.findings()
    assert (stored.case_id, stored.kinds, stored.confirmed) == (case.id, (Kind.VALUE,), False)
    after = new_campaign(run_id=before.run_id)
    assert after.queue.new == before.queue.new == (stored.id,)
    see(after, case)
    assert isinstance(next_job(after), jobs.Investigate) and after.store.findings() == [stored]


def test_a_confirmed_finding_takes_the_place_of_what_was_seen(campaign: Any) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    places = [see(campaign, case, PROGRAM) for case in (first, second)]
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    confirm(campaign)
    assert not campaign.queue.seen and not any(place.exists() for place in places)
    assert all(f.confirmed for f in campaign.store.findings(duplicates=True))
    assert campaign.end().findings == tuple(campaign.queue.findings)


def test_what_an_earlier_run_saw_gives_way_too(new_campaign: Any) -> None:
    case, before, after = case_of("s"), new_campaign(), new_campaign()
    assert before.run_id != after.run_id and see(before, case, PROGRAM) == see(after, case, PROGRAM)
    conclude(after, case, investigated(case, "g"))
    confirm(after)
    for run in (before, after):
        ((finding, folder, _),) = run.store.placed(run.run_id)
        assert finding.confirmed and Path(folder, "repro.py").is_file()


def test_few_findings_have_more_time_each_than_many_and_each_has_some() -> None:
    effort = Effort()
    assert effort.for_one(3600.0, 0.0, 1) == MOST_SECONDS
    assert LEAST_SECONDS < effort.for_one(600.0, 50.0, 3) < effort.for_one(600.0, 50.0, 2) < MOST_SECONDS
    assert effort.for_one(600.0, 149.0, 5) == effort.for_one(20.0, 0.0, 1) == LEAST_SECONDS
    assert Effort(300.0, share=None).for_one(20.0, 500.0, 9) == 300.0


def test_a_gpu_has_more_time_for_each() -> None:
    assert Effort.on("cpu") == Effort()
    assert Effort.on("cuda").for_one(20.0, 0.0, 1) == ON_GPU * LEAST_SECONDS
    assert Effort.on("cuda").for_one(1e6, 0.0, 1) == ON_GPU * MOST_SECONDS


@pytest.mark.parametrize(
    ("left", "manner"),
    [(15.0, Manner.AS_FOUND), (24.0, Manner.BLAMED), (40.0, Manner.HERE), (100.0, Manner.HERE)],
    ids=["as found", "blamed", "both", "all"],
)
def test_an_investigation_ends_before_the_run_does(campaign: Any, left: float, manner: Manner) -> None:
    see(campaign, case_of("s"))
    job, _ = campaign.queue.next_job(left, cases_left=True)
    assert job.manner is manner and job.seconds <= max(0.4 * left, LEAST_SECONDS)


def test_what_took_a_worker_is_not_blamed_in_short(campaign: Any) -> None:
    see(campaign, case_of("s"))
    job, _ = campaign.queue.next_job(100.0, cases_left=True)
    campaign.queue.hear(Ended(job, None, "crash", detail="signal 8"))
    job, _ = campaign.queue.next_job(24.0, cases_left=True)
    assert job.manner is Manner.AS_FOUND


def test_findings_have_more_time_where_no_case_is_left() -> None:
    effort = Effort()
    assert effort.for_one(900.0, 0.0, 1, rest=800.0) == 200.0 and effort.for_one(900.0, 0.0, 2, rest=800.0) == 100.0
    assert effort.for_one(900.0, 225.0, 4, rest=60.0) == LEAST_SECONDS
    assert effort.for_one(9000.0, 0.0, 1, rest=8000.0) == LONGEST * MOST_SECONDS
    assert effort.for_one(600.0, 0.0, 1, rest=10.0) == effort.for_one(600.0, 0.0, 1) == MOST_SECONDS


@pytest.mark.parametrize("listed", [False, True])
def test_a_run_that_goes_on_tells_what_was_confirmed_and_writes_its_report(new_campaign: Any, listed: bool) -> None:
    cases, before = [case_of("s", 0), case_of("s", 1)], new_campaign()
    for case in cases:
        see(before, case, PROGRAM)
    conclude(before, cases[0], investigated(cases[0], "g"))
    conclude(before, cases[1], investigated(cases[1], "g", program=""))
    confirm(before)
    (print_,) = before.queue.findings
    after = new_campaign(run_id=before.run_id, baseline=frozenset([print_] if listed else []))
    after.run.start()
    for case in cases:
        assert after.schedule.recalled(jobs.Judge(case.number, case))
    job = next_job(after)
    assert isinstance(job, jobs.WriteUp) and job.finding.fingerprint == print_ and idle(after)
    finished = after.end()
    assert [(e.folder != "", e.known, e.duplicate_of) for e in made(after)] == [
        (True, "baseline" if listed else "", ""), (False, "baseline" if listed else "", print_),
    ]  # fmt: skip
    assert (finished.exit_code, finished.duplicates) == (Exit.OK if listed else Exit.FINDINGS, 1)


def test_a_reduced_program_that_shows_nothing_gives_way_to_the_one_that_was_seen(campaign: Any) -> None:
    case = case_of("s")
    whole = PROGRAM.replace("x.flip(0)", "x.flip(0).flip(0).flip(0)")
    see(campaign, case, whole)
    conclude(campaign, case, investigated(case, "g"))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1)
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1, garbage=True)
    confirm(campaign)
    (one,) = made(campaign)
    assert (one.finding.program, one.finding.unit, one.finding.confirmed) == (whole, UNIT, True)
    assert campaign.ledger.counts["unconfirmed"] == 0 and not campaign.queue.seen


@pytest.mark.parametrize("program", ["", PROGRAM])
def test_what_no_fresh_process_shows_is_told_as_it_was_seen(new_campaign: Any, program: str) -> None:
    case, campaign = case_of("s"), new_campaign()
    see(campaign, case, program)
    assert isinstance(next_job(campaign), jobs.Investigate)
    conclude(campaign, case, investigated(case, "g"))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1)
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1, garbage=True)
    assert idle(campaign)
    finished = campaign.end()
    assert (finished.exit_code, finished.counts["unconfirmed"], len(finished.findings)) == (Exit.FINDINGS, 1, 1)
    (told,) = made(campaign)
    assert not told.finding.confirmed and "fresh process" in told.finding.evidence[-1]


def test_a_seed_whose_source_makes_no_script_is_told_without_one(campaign: Any) -> None:
    place = see(campaign, case_of("s"), "class Net: pass\n")
    assert (place / "finding.json").is_file() and not (place / "repro.py").exists()


# -- one finding a cause -----------------------------------------------------------


def test_what_is_not_confirmed_leaves_its_group_to_others(campaign: Any) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    confirm(campaign, Confirmation(0, 1, "equal"))
    confirm(campaign, Confirmation(1, 2, "equal"), threads=1)
    confirm(campaign, Confirmation(1, 2, "equal"), threads=1, garbage=True)
    assert not made(campaign) and not campaign.queue.findings
    campaign.queue.add(Found(2, case_of("s", 2), differs(case_of("s", 2))))
    assert next_job(campaign).groups == ()
    assert campaign.ledger.counts["unconfirmed"] == 2
    (place,) = (campaign.settings.state_dir / "unconfirmed").iterdir()
    assert (place / "repro.py").is_file() and not (campaign.settings.state_dir / "findings").exists()
    assert any(isinstance(e, Warned) and "1 of 2" in e.message for e in campaign.told)


def test_what_one_thread_alone_shows_is_told_to_run_on_one(campaign: Any) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, threads=1)
    one, other = made(campaign)
    assert other.duplicate_of == one.finding.id and campaign.ledger.counts["unconfirmed"] == 0
    assert "torch.set_num_threads(1)" in (Path(one.folder) / "repro.py").read_text()


def test_what_shows_only_where_new_memory_holds_garbage_has_a_script_that_fills_it(campaign: Any) -> None:
    case = case_of("s")
    conclude(campaign, case, investigated(case, "g"))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1)
    confirm(campaign, threads=1, garbage=True)
    (one,) = made(campaign)
    assert "mallopt(-6, 0x5a)" in (Path(one.folder) / "repro.py").read_text()


def test_equal_graphs_from_two_seeds_are_one_finding_and_unlike_ones_two(campaign: Any) -> None:
    for seed, skeleton in (("s", (("flip", ()),)), ("t", (("flip", ()),)), ("u", (("roll", ()),))):
        case = case_of(seed)
        conclude(campaign, case, investigated(case, f"g{seed}", skeleton=skeleton))
        while not idle(campaign):
            confirm(campaign)
    assert len(campaign.queue.findings) == 2
    assert campaign.queue.duplicates == 1


def test_equal_fingerprints_of_unlike_graphs_stay_apart(campaign: Any) -> None:
    pairs = (("s", ()),) * 4 + (("t", (0, 1)), ("t", (0, 1)), ("t", (2, 3)), ("t", (2, 3)))
    ring = (("s", ()),) * 4 + tuple(("t", (i, (i + 1) % 4)) for i in range(4))
    for seed, skeleton in (("s", pairs), ("t", ring)):
        case = case_of(seed)
        conclude(campaign, case, investigated(case, f"g{seed}", PROGRAM + f"# {seed}\n", skeleton))
        confirm(campaign)
    assert len(campaign.queue.findings) == 2


# -- reduced further -----------------------------------------------------------------


@pytest.mark.parametrize("stands", [True, False])
def test_a_finding_that_is_reduced_further_keeps_its_id_and_stays_where_less_shows_nothing(
    new_campaign: Any, stands: bool
) -> None:
    case, before = case_of("s"), new_campaign()
    conclude(before, case, investigated(case, "g"))
    confirm(before)
    (old,) = before.queue.findings.values()
    after = new_campaign(run_id=before.run_id, again={case.id: old})
    smaller = investigated(case, "g", PROGRAM.replace("flip(0)", "roll(1)"), skeleton=(("roll", ()),))
    conclude(after, case, smaller)
    assert not after.queue.findings
    if stands:
        confirm(after)
    else:
        confirm(after, Confirmation(0, 1, "gone"))
        confirm(after, Confirmation(0, 1, "gone"), threads=1)
        confirm(after, Confirmation(0, 1, "gone"), threads=1, garbage=True)
    (now,) = after.queue.findings.values()
    assert (now.id, now.fingerprint, "roll" in now.program) == (old.id, old.fingerprint, stands)
    assert after.queue.placed == 1
    assert [f.id for f in after.store.findings()] == [old.id]


def test_a_finding_that_is_reduced_further_is_not_investigated_as_found(new_campaign: Any) -> None:
    case, before = case_of("s"), new_campaign()
    conclude(before, case, investigated(case, "g"))
    confirm(before)
    after = new_campaign(run_id=before.run_id, again={case.id: next(iter(before.queue.findings.values()))})
    after.queue.hear(Ended(jobs.Investigate(0, case, differs(case), 60.0), None, "timeout", detail="60 s"))
    assert idle(after) and len(after.queue.findings) == 1


# -- time --------------------------------------------------------------------------


def test_investigating_has_a_quarter_of_what_was_spent_while_cases_are_left(campaign: Any) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    see(campaign, first)
    see(campaign, second)
    assert campaign.queue.wants(cases_left=True)
    used = 0.25 * campaign.settings.max_time
    campaign.queue.hear(Ended(replace(next_job(campaign), manner=Manner.AS_FOUND), None, "timeout", cpu=used))
    assert not campaign.queue.wants(cases_left=True)
    assert campaign.queue.wants(cases_left=False)


@pytest.mark.parametrize(
    ("trouble", "device", "manners"),
    [
        ("crash", "cpu", [Manner.APART, Manner.BLAMED, Manner.AS_FOUND]),
        ("crash", "cuda", [Manner.BLAMED, Manner.AS_FOUND]),
        ("timeout", "cpu", [Manner.BLAMED, Manner.AS_FOUND]),
        ("error", "cpu", [Manner.BLAMED, Manner.AS_FOUND]),
    ],
)
def test_an_investigation_that_failed_is_made_again_in_other_manners_and_then_told(
    campaign: Any, trouble: str, device: str, manners: list[Manner]
) -> None:
    case = replace(case_of("s"), device=device)
    job = jobs.Investigate(0, case, CaseResult(case.id, Status.FINDING), 60.0)
    for manner in manners:
        campaign.queue.hear(Ended(job, None, trouble, detail="why"))
        assert not campaign.ledger.counts["unconfirmed"] and not campaign.told
        job = next_job(campaign)
        assert (job.case, job.manner) == (case, manner)
    campaign.queue.hear(Ended(job, None, "crash", detail="signal 11"))
    assert campaign.ledger.counts["unconfirmed"] == 1
    assert any(isinstance(e, Warned) for e in campaign.told)


def test_what_a_worker_had_found_out_before_it_was_lost_is_kept(campaign: Any) -> None:
    case, blame = case_of("s"), Blame(Stage.CODEGEN, "codegen.CppVecOverrides.floordiv", True)
    job = jobs.Investigate(0, case, CaseResult(case.id, Status.FINDING), 60.0)
    campaign.queue.hear(Ended(job, None, "crash", detail="signal 8", so_far=blame))
    job = next_job(campaign)
    assert (job.manner, job.blame) == (Manner.APART, blame)
    campaign.queue.hear(Ended(job, None, "timeout", detail="60 s"))
    job = next_job(campaign)
    assert (job.manner, job.blame) == (Manner.AS_FOUND, blame)


# -- killed ------------------------------------------------------------------------


class Killed(BaseException):
    """What ``kill -9`` is to a process."""


def killing(monkeypatch: pytest.MonkeyPatch, store: Any, at: int) -> None:
    """The process is killed when it begins its ``at``-th transaction from now on; the disk stays as it is."""
    real, begun = store._transaction, []

    def transaction() -> Any:
        begun.append(1)
        if len(begun) >= at:
            raise Killed
        return real()

    monkeypatch.setattr(store, "_transaction", transaction)


@pytest.mark.parametrize("at", range(1, 7))
def test_a_kill_between_any_two_writes_loses_no_differing_case_and_tells_none_twice(
    new_campaign: Any, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    before = new_campaign()
    first, second = case_of("s", 0), case_of("s", 1)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        killing(patched, before.store, at)
        see(before, first, PROGRAM)  # finding, result
        see(before, second, PROGRAM)  # finding, result
        conclude(before, first, investigated(first, "g"))
        conclude(before, second, investigated(second, "g", program=""))
        confirm(before)  # the one takes the place of what was seen, the other one that of its own
        killing(patched, before.store, 1)
        before.finish()
    differing = {case for case, r in before.store.results(before.run_id).items() if r.status is Status.FINDING}
    stored = [f.case_id for f in before.store.findings(before.run_id, duplicates=True)]
    assert differing <= set(stored) and len(stored) == len(set(stored))
    after = new_campaign(run_id=before.run_id)
    for case in (first, second):  # those without a result are judged again
        job = jobs.Judge(case.number, case)
        if not after.schedule.recalled(job):
            after.hear(case.number, case, differs(case), investigated(case, "", PROGRAM, skeleton=()))
    finished = after.end()
    assert finished.exit_code == Exit.FINDINGS
    assert {f.case_id for f in after.store.findings(duplicates=True)} == {first.id, second.id}
    assert set(finished.findings) == {f.id for f in after.store.findings()}
