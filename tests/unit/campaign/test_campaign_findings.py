"""What a campaign makes of investigated cases: one finding a cause, confirmed or not at all."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign import worker
from fxmorph.campaign.run import FINDINGS, INTERNAL, NOTHING_RAN, OK, Campaign
from fxmorph.campaign.worker import Manner
from fxmorph.core.clock import Clock
from fxmorph.core.config import Settings
from fxmorph.core.finding_parts import Blame
from fxmorph.core.pool import Ended
from fxmorph.core.store import Store
from fxmorph.core.units import Stage
from fxmorph.events import Checked, FindingMade, RunFinished, Warned
from fxmorph.judge.plans import PLANS, THREADS, plans_of
from fxmorph.model import RESHAPES, Case, CaseResult, CompileConfig, Kind, Seed, Status, ValuePlan
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.folder.confirm import Confirmation
from fxmorph.triage.identity import checked_fingerprint
from fxmorph.triage.known import Known

PROGRAM = "def make_inputs():\n    return [torch.zeros(2)]\n\n\ndef fn(x):\n    a = x.flip(0)\n    return (a,)\n"
UNIT = "post_grad.reinplace_inplaceable_ops"
STANDS = Confirmation(3, 3, "differs", "gone")


@pytest.fixture(params=[False])
def campaign(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """One that runs, or with the parameter True one of ``fxmorph check``."""
    settings = Settings(state=str(tmp_path / "state"), max_time=100.0, jobs=1)
    with Store(settings.state_dir) as store:
        events: list[Any] = []
        made = Campaign(settings, store, events.append, None, check=request.param)
        made._run_id = store.create_run(settings, {})
        made._known, made._baseline, made._spent, made._clock = Known(()), frozenset(), 0.0, Clock()
        made.told = events  # type: ignore[attr-defined]
        yield made


def case_of(seed: str, number: int = 0) -> Case:
    return Case(Seed(f"{seed}.py", "module", seed), number, 0, (ValuePlan.SEED,), CompileConfig.make())


def conclude(campaign: Campaign, case: Case, got: Investigated | None) -> None:
    result = CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off by one", stage="inductor")
    job = worker.Investigate(0, case, result, 60.0)
    campaign._conclude(job, Ended(job, got))


def investigated(case: Case, group: str, program: str = PROGRAM, skeleton: Any = (("flip", ()),)) -> Investigated:
    blame = Blame(Stage.POST_GRAD, UNIT, True, off=(UNIT,))
    config = {"backend": "inductor", "compile": {}, "inductor": {}, "dynamo": {}, "no_grad": False, "calls": 1,
              "device": "cpu", "context": "", "dtype": ""}  # fmt: skip
    check = {"exact": True, "rtol": 0.0, "atol": 0.0}
    return Investigated(
        case.id, program, (Kind.VALUE,), blame, "", (), ("flip",), "h", ("value of out0: off",), 1, 5, config, check,
        skeleton=skeleton if program else (), group=group,
    )  # fmt: skip


def confirm(campaign: Campaign, shown: Confirmation = STANDS, threads: int | None = None) -> None:
    job = campaign._to_confirm.popleft()
    assert job.finding.config.get("threads") == threads
    campaign._confirmed(job, Ended(job, (shown, ())))


def made(campaign: Any) -> list[FindingMade]:
    return [e for e in campaign.told if isinstance(e, FindingMade)]


def test_a_case_that_was_only_blamed_is_a_duplicate_of_its_group(campaign: Campaign) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    (job,) = campaign._to_confirm
    assert Path(job.folder).is_dir() and not (campaign.settings.state_dir / "findings").exists()
    confirm(campaign)
    one, other = made(campaign)
    assert (one.duplicate_of, other.duplicate_of) == ("", one.finding.id)
    assert campaign.duplicates == 1
    assert any("3 of 3 fresh processes" in line and "gone" in line for line in one.finding.evidence)
    assert Path(one.folder).parent.name == "findings" and not any(Path(job.folder).parent.iterdir())
    assert {f.case_id for f in campaign.store.findings(duplicates=True)} == {first.id, second.id}


# -- seen, and what is made of it ------------------------------------------------


def see(campaign: Campaign, case: Case, program: str = "") -> Path:
    """Judge the case so that it differs; where it lies as it was seen."""
    campaign._started = time.monotonic()
    result = CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off by one", stage="inductor")
    found = investigated(case, "", program, skeleton=()) if program else None
    campaign._take(case.number, case, result, stored=False, found=found)
    return campaign._place_of_seen(campaign._seen[case.id])


def ended(campaign: Any) -> RunFinished:
    """The end of the run as it is told."""
    campaign._finish(campaign._exit_code())
    return next(e for e in campaign.told if isinstance(e, RunFinished))


def test_a_case_that_is_being_investigated_when_time_ends_is_a_finding(campaign: Campaign) -> None:
    case = case_of("s")
    place = see(campaign, case, PROGRAM)
    campaign.found.clear()  # a worker has it
    finished = ended(campaign)
    (told,) = made(campaign)
    (stored,) = campaign.store.findings()
    assert finished.exit_code == FINDINGS
    assert finished.findings == (told.finding.id,) == (stored.id,)
    assert not told.finding.confirmed and not stored.confirmed
    assert told.folder == str(place) and (place / "repro.py").is_file()


def test_what_is_seen_is_stored_at_once_and_read_again_by_a_run_that_goes_on(campaign: Campaign) -> None:
    case = case_of("s")
    see(campaign, case)
    (stored,) = campaign.store.findings()
    assert (stored.case_id, stored.kinds, stored.confirmed) == (case.id, (Kind.VALUE,), False)


def test_a_confirmed_finding_takes_the_place_of_what_was_seen(campaign: Campaign) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    places = [see(campaign, case, PROGRAM) for case in (first, second)]
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    confirm(campaign)
    assert not campaign._seen and not any(place.exists() for place in places)
    assert all(f.confirmed for f in campaign.store.findings(duplicates=True))
    assert ended(campaign).findings == tuple(campaign.findings)


def test_a_reduced_program_that_shows_nothing_gives_way_to_the_one_that_was_seen(campaign: Campaign) -> None:
    case = case_of("s")
    whole = PROGRAM.replace("x.flip(0)", "x.flip(0).flip(0).flip(0)")
    see(campaign, case, whole)
    conclude(campaign, case, investigated(case, "g"))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1)
    confirm(campaign)
    (one,) = made(campaign)
    assert (one.finding.program, one.finding.unit, one.finding.confirmed) == (whole, UNIT, True)
    assert campaign.counts["unconfirmed"] == 0 and not campaign._seen


@pytest.mark.parametrize("program", ["", PROGRAM])
def test_what_no_fresh_process_shows_is_told_as_it_was_seen(campaign: Campaign, program: str) -> None:
    case = case_of("s")
    see(campaign, case, program)
    conclude(campaign, case, investigated(case, "g"))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, Confirmation(0, 1, "gone"), threads=1)
    assert not campaign._to_confirm
    finished = ended(campaign)
    assert (finished.exit_code, finished.counts["unconfirmed"], len(finished.findings)) == (FINDINGS, 1, 1)
    (told,) = made(campaign)
    assert not told.finding.confirmed and "fresh process" in told.finding.evidence[-1]


def test_a_seed_whose_source_makes_no_script_is_told_without_one(campaign: Campaign) -> None:
    place = see(campaign, case_of("s"), "class Net: pass\n")
    assert (place / "finding.json").is_file() and not (place / "repro.py").exists()


def test_a_run_that_did_not_reach_a_seed_is_not_green(campaign: Campaign) -> None:
    campaign._seeds, campaign._listed = [case_of("s").seed, case_of("t").seed], None
    case = case_of("s")
    campaign._started = time.monotonic()
    campaign._take(0, case, CaseResult(case.id, Status.CLEAN), stored=False)
    campaign._tell_unreached()
    assert any("t.py" in e.message for e in campaign.told if isinstance(e, Warned))  # type: ignore[attr-defined]
    assert campaign._exit_code() == NOTHING_RAN


def test_a_number_of_cases_that_was_asked_for_is_enough(campaign: Campaign) -> None:
    campaign.settings = replace(campaign.settings, max_cases=1)
    campaign._seeds, campaign._listed = [case_of("s").seed, case_of("t").seed], None
    case = case_of("s")
    campaign._take(0, case, CaseResult(case.id, Status.CLEAN), stored=False)
    campaign._tell_unreached()
    assert campaign._exit_code() == OK


def test_a_seed_of_which_an_error_alone_is_known_fails_the_run(campaign: Campaign) -> None:
    for index, (seed, status) in enumerate([("s", Status.CLEAN), ("t", Status.ERROR)]):
        case = case_of(seed)
        campaign._take(index, case, CaseResult(case.id, status), stored=False)
    assert campaign._exit_code() == INTERNAL


# -- what cases are judged on ------------------------------------------------------


def test_every_fourth_case_of_a_campaign_has_several_threads(campaign: Campaign) -> None:
    campaign._favoured = ()
    drawn = [campaign._next(campaign._case(case_of("s").seed, n))[1].threads for n in range(8)]
    assert drawn == [1, 1, 1, THREADS] * 2
    campaign.settings = replace(campaign.settings, threads=2)
    assert campaign._next(campaign._case(case_of("s").seed, 1))[1].threads == 2
    campaign.settings = replace(campaign.settings, threads=0, rewrites=False)
    assert {campaign._next(campaign._case(case_of("s").seed, 0))[1].threads for _ in range(8)} == {1}


def test_threads_are_part_of_a_case_and_one_is_as_before() -> None:
    one = case_of("s")
    assert replace(one, threads=1).id == one.id != replace(one, threads=4).id


def test_a_seed_as_it_is_has_one_set_of_plans_wherever_it_is_judged(tmp_path: Path) -> None:
    from fxmorph.commands.explain import _seed_case

    (tmp_path / "s.py").write_text("import torch\ndef make_inputs(): return [torch.ones(2)]\ndef fn(x): return x\n")
    settings = Settings(state=str(tmp_path / "state"), rewrites=False)
    explained = _seed_case(settings, str(tmp_path / "s.py"))
    with Store(settings.state_dir) as store:
        cases = [Campaign(settings, store, print, None, check=c)._case(explained.seed, 0) for c in (True, False)]
    assert {case.plans for case in (explained, *cases)} == {(*PLANS, ValuePlan.LAYOUT)}
    quick = replace(settings, quick=True)
    assert set(plans_of(quick, explained.seed, 0)) < set(PLANS)


def test_what_is_not_confirmed_leaves_its_group_to_others(campaign: Campaign) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    confirm(campaign, Confirmation(0, 1, "equal"))
    confirm(campaign, Confirmation(1, 2, "equal"), threads=1)
    assert not made(campaign) and not campaign.findings and not campaign._groups
    assert campaign.counts["unconfirmed"] == 2
    (place,) = (campaign.settings.state_dir / "unconfirmed").iterdir()
    assert (place / "repro.py").is_file() and not (campaign.settings.state_dir / "findings").exists()
    assert any(isinstance(e, Warned) and "1 of 2" in e.message for e in campaign.told)  # type: ignore[attr-defined]


def test_what_one_thread_alone_shows_is_told_to_run_on_one(campaign: Campaign) -> None:
    first, second = case_of("s", 0), case_of("s", 1)
    conclude(campaign, first, investigated(first, "g"))
    conclude(campaign, second, investigated(second, "g", program=""))
    confirm(campaign, Confirmation(0, 1, "gone"))
    confirm(campaign, threads=1)
    one, other = made(campaign)
    assert other.duplicate_of == one.finding.id and campaign.counts["unconfirmed"] == 0
    assert "torch.set_num_threads(1)" in (Path(one.folder) / "repro.py").read_text()


def test_equal_graphs_from_two_seeds_are_one_finding_and_unlike_ones_two(campaign: Campaign) -> None:
    for seed, skeleton in (("s", (("flip", ()),)), ("t", (("flip", ()),)), ("u", (("roll", ()),))):
        case = case_of(seed)
        conclude(campaign, case, investigated(case, f"g{seed}", skeleton=skeleton))
        while campaign._to_confirm:
            confirm(campaign)
    assert len(campaign.findings) == 2
    assert campaign.duplicates == 1


def test_equal_fingerprints_of_unlike_graphs_stay_apart(campaign: Campaign) -> None:
    pairs = (("s", ()),) * 4 + (("t", (0, 1)), ("t", (0, 1)), ("t", (2, 3)), ("t", (2, 3)))
    ring = (("s", ()),) * 4 + tuple(("t", (i, (i + 1) % 4)) for i in range(4))
    for seed, skeleton in (("s", pairs), ("t", ring)):
        case = case_of(seed)
        conclude(campaign, case, investigated(case, f"g{seed}", PROGRAM + f"# {seed}\n", skeleton))
        confirm(campaign)
    assert len(campaign.findings) == 2


def test_investigating_stops_at_a_quarter_of_the_budget(campaign: Campaign) -> None:
    campaign.found.append(object())  # type: ignore[arg-type]
    assert campaign._wants_investigation(cases_left=False)
    campaign._spent = 0.25 * campaign.settings.max_time
    assert not campaign._wants_investigation(cases_left=False)


def test_some_variants_get_other_shapes_and_no_seed_as_it_is_does(campaign: Campaign) -> None:
    campaign._favoured = ()
    seeds = [Seed(f"{n}.py", "module", f"{n}") for n in range(40)]
    cases = [campaign._case(seed, number) for seed in seeds for number in range(7)]
    reshaped = [case for case in cases if case.reshaped]
    free = [case for case in cases if case.number and not case.relaid]
    assert {case.reshaped for case in reshaped} == set(RESHAPES)
    assert all(case in free for case in reshaped) and 0.15 < len(reshaped) / len(free) < 0.35
    assert cases == [campaign._case(seed, number) for seed in seeds for number in range(7)]


@pytest.mark.parametrize("campaign", [True], indirect=True)
def test_a_check_changes_no_shapes(campaign: Campaign) -> None:
    campaign._favoured = ()
    assert not any(campaign._case(Seed(f"{n}.py", "module", f"{n}"), 1).reshaped for n in range(40))


@pytest.mark.parametrize(
    ("trouble", "device", "manners"),
    [
        ("crash", "cpu", [Manner.APART, Manner.AS_FOUND]),
        ("crash", "cuda", [Manner.AS_FOUND]),
        ("timeout", "cpu", [Manner.AS_FOUND]),
        ("error", "cpu", [Manner.AS_FOUND]),
    ],
)
def test_an_investigation_that_failed_is_made_again_in_other_manners_and_then_told(
    campaign: Campaign, trouble: str, device: str, manners: list[Manner]
) -> None:
    case = replace(case_of("s"), device=device)
    job = worker.Investigate(0, case, replace(CaseResult(case.id, Status.FINDING)), 60.0)
    for manner in manners:
        campaign._conclude(job, Ended(job, None, trouble, detail="why"))
        assert not campaign.counts["unconfirmed"] and not campaign.told  # type: ignore[attr-defined]
        again = campaign.found.pop()
        assert (again.case, again.manner) == (case, manner)
        job = replace(job, manner=manner)
    campaign._conclude(job, Ended(job, None, "crash", detail="signal 11"))
    assert campaign.counts["unconfirmed"] == 1
    assert any(isinstance(e, Warned) for e in campaign.told)  # type: ignore[attr-defined]


checking = pytest.mark.parametrize("campaign", [True], indirect=True)


def check(campaign: Campaign, **seeds: Status) -> dict[str, Checked]:
    """Judge seeds so; what is told of each."""
    for index, (seed, status) in enumerate(seeds.items()):
        case = case_of(seed)
        kinds = (Kind.VALUE,) if status is Status.FINDING else ()
        campaign._take(index, case, CaseResult(case.id, status, kinds, "why", stage="inductor"), stored=False)
    told = campaign.told  # type: ignore[attr-defined]
    return {e.seed.removesuffix(".py"): e for e in told if isinstance(e, Checked)}


@checking
def test_what_the_baseline_lists_is_known_and_fails_nothing(campaign: Campaign) -> None:
    listed = checked_fingerprint("old.py", (Kind.VALUE,), "inductor", "")
    campaign._baseline = frozenset({listed})
    told = check(campaign, old=Status.FINDING, right=Status.CLEAN)
    assert (told["old"].verdict, told["old"].fingerprint, told["old"].known) == (Status.KNOWN, listed, "baseline")
    assert (told["right"].fingerprint, told["right"].known) == ("", "")
    assert campaign._exit_code() == OK
    campaign.settings = replace(campaign.settings, fail_on_known=True)
    assert campaign._exit_code() == FINDINGS


@checking
def test_the_end_of_a_check_says_what_was_found(campaign: Campaign) -> None:
    campaign._started = time.monotonic()
    listed = checked_fingerprint("old.py", (Kind.VALUE,), "inductor", "")
    campaign._baseline = frozenset({listed})
    told = check(campaign, old=Status.FINDING, new=Status.FINDING, other=Status.FINDING, broken=Status.ERROR)
    campaign._finish(campaign._exit_code())
    finished = campaign.told[-1]  # type: ignore[attr-defined]
    assert finished.findings == (told["new"].fingerprint, told["other"].fingerprint)
    assert len({listed, *finished.findings}) == 3
    assert (finished.known, finished.cases, finished.report, finished.exit_code) == (1, 4, "", FINDINGS)
    assert finished.counts == {"known": 1, "finding": 2, "error": 1}


@checking
def test_one_error_fails_a_check_and_a_finding_is_worse(campaign: Campaign) -> None:
    check(campaign, right=Status.CLEAN, broken=Status.ERROR)
    assert campaign._exit_code() == INTERNAL
    check(campaign, wrong=Status.FINDING)
    assert campaign._exit_code() == FINDINGS


def test_a_checked_seed_has_one_fingerprint_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints = set()
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        for label in ("m/net.py:Net[eval]", "./m/net.py:Net[eval]", str(tmp_path / place / "m/net.py:Net[eval]")):
            prints.add(checked_fingerprint(label, (Kind.VALUE,), "inductor", ""))
    assert len(prints) == 1
    assert checked_fingerprint("m/net.py:Net[train]", (Kind.VALUE,), "inductor", "") not in prints
