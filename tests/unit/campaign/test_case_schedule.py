"""Which cases there are, what is told of them, and how the run ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign.jobs import JudgePasses
from fxmorph.campaign.schedule import case_of, rung_of
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended, Trouble
from fxmorph.core.records import from_json, to_json
from fxmorph.core.seeds import find_seeds
from fxmorph.events import Checked, RunFinished, Warned
from fxmorph.inductor.rung import Source
from fxmorph.judge.plans import APART, PLANS, QUICK, THREADS, kernels_of, plans_of, threads_of
from fxmorph.model import RESHAPES, Case, CaseResult, Kernels, Kind, Rung, Seed, Status, ValuePlan
from fxmorph.triage.identity import checked_fingerprint


def seed_of(name: str) -> Seed:
    return Seed(f"{name}.py", "module", name)


def judge(campaign: Any, **seeds: Status) -> None:
    """Seeds as they are are judged so."""
    for index, (name, status) in enumerate(seeds.items()):
        case = case_of(campaign.settings, seed_of(name), 0, Rung.CPU)
        kinds = (Kind.VALUE,) if status is Status.FINDING else ()
        campaign.hear(index, case, CaseResult(case.id, status, kinds, "why", stage="inductor"))


# -- what cases are judged on ------------------------------------------------------


def threads(campaign: Any, number: int) -> list[int]:
    jobs = campaign.schedule.jobs()
    return [next(jobs).case.compile.threads for _ in range(number)]


def test_every_fourth_case_of_a_campaign_has_several_threads(new_campaign: Any) -> None:
    seeds = tuple(seed_of(f"s{i}") for i in range(8))
    assert threads(new_campaign(seeds=seeds), 8) == [1, 1, 1, THREADS] * 2
    assert threads(new_campaign(seeds=seeds, threads=2), 8) == [2] * 8
    assert threads(new_campaign(seeds=seeds, rewrites=False), 8) == [1] * 8
    assert threads_of(Settings(threads=2), 3) == 2


def test_threads_are_part_of_a_case_and_one_is_as_before() -> None:
    one = case_of(Settings(), seed_of("s"), 0, Rung.CPU)
    several = replace(one, compile=replace(one.compile, threads=4))
    assert several.id != one.id
    stored = to_json(several)
    assert from_json(Case, stored) == several
    del stored["compile"]["threads"]
    assert from_json(Case, stored) == one
    assert from_json(Case, {**stored, "threads": 4}) == several  # as of earlier releases


def test_a_seed_as_it_is_has_one_set_of_plans_wherever_it_is_judged(tmp_path: Path, new_campaign: Any) -> None:
    from fxmorph.commands.explain import _seed_case

    (tmp_path / "s.py").write_text("import torch\ndef make_inputs(): return [torch.ones(2)]\ndef fn(x): return x\n")
    settings = Settings(state=str(tmp_path / "state"), rewrites=False)
    explained = _seed_case(settings, str(tmp_path / "s.py"))
    runs = [new_campaign(seeds=(explained.seed,), check=check, rewrites=False) for check in (True, False)]
    cases = [next(run.schedule.jobs()).case for run in runs]
    compiled = tuple(plan for plan in APART if plan is not ValuePlan.GPU)
    assert {case.plans for case in (explained, *cases)} == {(*PLANS, *compiled)}
    for told, left in (
        ({"threads": 4}, {ValuePlan.THREADS, ValuePlan.GPU}),
        ({"device": "cuda"}, {ValuePlan.THREADS, ValuePlan.GPU}),
        ({"backend": "eager"}, {*APART} - {ValuePlan.LAYOUT}),
        ({"inductor": (("fallback_random", "True"),)}, {ValuePlan.GPU, ValuePlan.RANDOM}),
        ({"quick": True}, {*PLANS, *APART} - {*QUICK}),
        ({"rung": "ir"}, {ValuePlan.CACHED, ValuePlan.RANDOM, ValuePlan.STRICT}),
        ({"rung": "ir", "quick": True}, {*PLANS, *APART} - {*QUICK, ValuePlan.GPU}),
    ):
        other = plans_of(replace(settings, **told), explained.seed, 0)
        assert {*PLANS, *APART} - {*other} == left
    quick = replace(settings, quick=True)
    assert set(plans_of(quick, explained.seed, 0)) < set(PLANS)


def test_some_variants_get_other_shapes_and_no_seed_as_it_is_does() -> None:
    seeds = [seed_of(f"{n}") for n in range(40)]
    cases = [case_of(Settings(), seed, number, Rung.CPU) for seed in seeds for number in range(7)]
    reshaped = [case for case in cases if case.reshaped]
    free = [case for case in cases if case.number and not case.relaid]
    assert {case.reshaped for case in reshaped} == set(RESHAPES)
    assert all(case in free for case in reshaped) and 0.15 < len(reshaped) / len(free) < 0.35
    assert cases == [case_of(Settings(), seed, number, Rung.CPU) for seed in seeds for number in range(7)]


def test_without_rewrites_no_shapes_change() -> None:
    settings = Settings(rewrites=False)
    assert not any(case_of(settings, seed_of(f"{n}"), 1, Rung.CPU).reshaped for n in range(40))


# -- what remains --------------------------------------------------------------------


def test_a_run_that_did_not_reach_a_seed_is_not_green(new_campaign: Any) -> None:
    campaign = new_campaign(seeds=(seed_of("s"), seed_of("t")))
    judge(campaign, s=Status.CLEAN)
    assert campaign.end().exit_code == Exit.NOTHING_RAN
    assert any("t.py" in e.message for e in campaign.told if isinstance(e, Warned))


def test_a_number_of_cases_that_was_asked_for_is_enough(new_campaign: Any) -> None:
    campaign = new_campaign(seeds=(seed_of("s"), seed_of("t")), max_cases=1)
    assert [job.index for job in campaign.schedule.jobs()] == [0]
    judge(campaign, s=Status.CLEAN)
    assert campaign.end().exit_code == Exit.OK


def test_a_seed_of_which_an_error_alone_is_known_fails_the_run(campaign: Any) -> None:
    judge(campaign, s=Status.CLEAN, t=Status.ERROR)
    assert campaign.end().exit_code == Exit.INTERNAL


@pytest.mark.parametrize(
    ("trouble", "ended", "code"),
    [
        (Trouble.ERROR, 5, Exit.INTERNAL),
        (Trouble.ERROR, 3, Exit.OK),
        (Trouble.CRASH, 5, Exit.OK),  # of an operator, which the coverage tells
    ],
)
def test_jobs_of_units_that_end_in_errors_of_ours_fail_the_run(
    new_campaign: Any, trouble: Trouble, ended: int, code: Exit
) -> None:
    campaign = new_campaign(only=("seeds", "passes"))
    judge(campaign, s=Status.CLEAN)
    for part in range(ended):
        job = JudgePasses(0, Source(samples=part), (), 0, "programs")
        campaign.schedule.hear(Ended(job, trouble=trouble, phase="idle", detail="RuntimeError: no such operator"))
    assert campaign.end().exit_code == code
    said = [e.message for e in campaign.told if isinstance(e, Warned)]
    assert any("5 of 5 jobs of units ended in an error" in message for message in said) == (code is Exit.INTERNAL)


# -- check -----------------------------------------------------------------------------


def told_of(campaign: Any) -> dict[str, Checked]:
    return {e.seed.removesuffix(".py"): e for e in campaign.told if isinstance(e, Checked)}


LISTED = checked_fingerprint("old.py", (Kind.VALUE,), "inductor", "")


@pytest.mark.parametrize(("fail_on_known", "code"), [(False, Exit.OK), (True, Exit.FINDINGS)])
def test_what_the_baseline_lists_is_known_and_fails_nothing(new_campaign: Any, fail_on_known: bool, code: int) -> None:
    campaign = new_campaign(check=True, baseline=frozenset({LISTED}), fail_on_known=fail_on_known)
    judge(campaign, old=Status.FINDING, right=Status.CLEAN)
    told = told_of(campaign)
    assert (told["old"].verdict, told["old"].fingerprint, told["old"].known) == (Status.KNOWN, LISTED, "baseline")
    assert (told["right"].fingerprint, told["right"].known) == ("", "")
    assert campaign.end().exit_code == code


def test_the_end_of_a_check_says_what_was_found(new_campaign: Any) -> None:
    campaign = new_campaign(check=True, baseline=frozenset({LISTED}))
    judge(campaign, old=Status.FINDING, new=Status.FINDING, other=Status.FINDING, broken=Status.ERROR)
    told = told_of(campaign)
    finished = campaign.end()
    assert isinstance(campaign.told[-1], RunFinished)
    assert finished.findings == (told["new"].fingerprint, told["other"].fingerprint)
    assert len({LISTED, *finished.findings}) == 3
    assert (finished.known, finished.cases, finished.report, finished.exit_code) == (1, 4, "", Exit.FINDINGS)
    assert finished.counts == {"known": 1, "finding": 2, "error": 1}


def test_one_error_fails_a_check_and_a_finding_is_worse(new_campaign: Any) -> None:
    campaign = new_campaign(check=True)
    judge(campaign, right=Status.CLEAN, broken=Status.ERROR)
    assert campaign.run.exit_code() == Exit.INTERNAL
    judge(campaign, wrong=Status.FINDING)
    assert campaign.run.exit_code() == Exit.FINDINGS


def test_a_checked_seed_has_one_fingerprint_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints = set()
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        for label in ("m/net.py:Net[eval]", "./m/net.py:Net[eval]", str(tmp_path / place / "m/net.py:Net[eval]")):
            prints.add(checked_fingerprint(label, (Kind.VALUE,), "inductor", ""))
    assert len(prints) == 1
    assert checked_fingerprint("m/net.py:Net[train]", (Kind.VALUE,), "inductor", "") not in prints


def test_kernels_are_interpreted_where_that_is_asked_as_for_gpus_in_turn(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import torch\ndef make_inputs(): return [torch.ones(2)]\ndef fn(x): return x\n")
    settings = Settings(rung="ir")
    seed = find_seeds([str(tmp_path / "s.py")])[0][0]
    case = case_of(settings, seed, 0, rung_of(settings))
    assert (case.rung, case.compile.kernels) == (Rung.IR, Kernels.CPP)
    assert [kernels_of(settings, index) for index in range(3)] == [Kernels.CPP, Kernels.GPU, Kernels.CPP]
    assert kernels_of(Settings(), 1) is Kernels.GENERATED
    compiled = replace(case, compile=replace(case.compile, kernels=Kernels.GENERATED))
    assert compiled.id != case.id and "kernels" not in to_json(compiled)["compile"]
    assert from_json(Case, to_json(case)) == case
