"""Runs of several state folders as those of one, and since when their findings show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.core.config import Settings
from fxmorph.core.last_run import last_coverage
from fxmorph.core.lifetime import Lifetime, lifetime, release_key
from fxmorph.core.records import from_json, to_json
from fxmorph.core.shard import Shard
from fxmorph.core.store import Store
from fxmorph.core.united import program_of, united
from fxmorph.model import BugClass, Case, CaseResult, CompileConfig, Finding, Kind, Recipe, Seed, Status, ValuePlan

SEED = Seed("corpus/seeds/some.py", "module", "ab" * 8)


def case(number: int, torch: str) -> Case:
    return Case(SEED, number, 0, (ValuePlan.SEED,), CompileConfig(), torch=torch)


def found(id: str, case_id: str, **more: Any) -> Finding:
    return Finding(
        id, case_id, SEED.path, "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", id, "far", "", **more
    )  # fmt: skip


def state(folder: Path, torch: str = "2.13.0", statuses: str = "c", findings: Any = (), **settings: Any) -> Path:
    """A run with a case for each letter (c: clean, f: differs) and ``findings`` of (id, number of the case, fields)."""
    with Store(folder) as store:
        run = store.create_run(Settings(**settings), {"torch": torch, "seed": 0})
        for number, letter in enumerate(statuses):
            one = case(number, torch)
            status = Status.FINDING if letter == "f" else Status.CLEAN
            store.add_result(run, number, one, CaseResult(one.id, status))
        for id, number, more in findings:
            place = folder / ("findings" if more.get("confirmed", True) else "seen") / id
            place.mkdir(parents=True)
            (place / "repro.py").write_text(f"# {folder.name}")
            store.add_finding(run, found(id, case(number, torch).id, **more), str(place))
        store.finish_run(run, {"cases": len(statuses)})
    return folder


def test_a_run_that_two_folders_have_is_one(tmp_path: Path) -> None:
    one, other = state(tmp_path / "a", statuses="cc"), tmp_path / "b"
    with Store(one, write=False) as store, Store(other) as copy:
        (run,) = store.runs()
        copy.adopt(store, run.id)
        copy._write("DELETE FROM results WHERE position = 1", ())
    for states in ([one, other], [other, one]):
        with united(states) as runs:
            ((chosen, _),) = runs.runs
            assert chosen.path == one


def test_what_another_run_confirmed_of_a_case_stands_for_what_was_seen(tmp_path: Path) -> None:
    a = state(tmp_path / "a", statuses="f", findings=[("seen", 0, {"confirmed": False})])
    b = state(tmp_path / "b", statuses="f", findings=[("aa", 0, {})])
    with united([a, b]) as runs:
        rows = [row for _, run in runs.runs for row in runs.findings(run.id)]
    assert [(row.finding.id, row.duplicate_of) for row in rows] == [("seen", "aa"), ("aa", "")]


def test_runs_under_several_releases_tell_since_when_a_finding_shows(tmp_path: Path) -> None:
    states = [
        state(tmp_path / "new", "2.15.0", "c"),
        state(tmp_path / "old", "2.8.0+cpu", "c"),
        state(
            tmp_path / "mid",
            "2.13.0",
            "f",
            [("aa", 0, {"releases": (("2.11.0", "still there"), ("2.13.0+cu130", "still there"))})],
        ),
    ]
    with united(states) as runs:
        (row,) = (row for _, run in runs.runs for row in runs.findings(run.id))
    assert row.finding.releases == (
        ("2.8.0+cpu", "gone"), ("2.11.0", "still there"), ("2.13.0+cu130", "still there"), ("2.15.0", "gone"),
    )  # fmt: skip
    assert row.finding.lifetime == Lifetime("2.11.0", "2.13.0+cu130", "2.15.0")
    body = to_json(row.finding)
    assert [body["extra"][word] for word in ("first_seen", "last_seen", "fixed_in")] == [
        "2.11.0",
        "2.13.0+cu130",
        "2.15.0",
    ]
    assert from_json(Finding, body) == row.finding


def test_one_release_says_nothing_of_others(tmp_path: Path) -> None:
    with united([state(tmp_path / "a", statuses="f", findings=[("aa", 0, {})])]) as runs:
        (row,) = (row for _, run in runs.runs for row in runs.findings(run.id))
    assert row.finding.releases is None and row.finding.lifetime == Lifetime()


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ([], Lifetime()),
        ([("2.8.0", "gone")], Lifetime()),
        ([("2.10.0", "still there"), ("2.9.0", "breaks")], Lifetime("2.10.0", "2.10.0")),
        ([("2.13.0", "gone"), ("2.10.0", "still there"), ("2.9.0", "gone")], Lifetime("2.10.0", "2.10.0", "2.13.0")),
        ([("2.8.0", "still there"), ("2.9.0", "gone"), ("2.10.0", "still there")], Lifetime("2.8.0", "2.10.0")),
    ],
)
def test_lifetimes(shown: list[tuple[str, str]], said: Lifetime) -> None:
    assert lifetime(shown) == said


def test_releases_have_an_order() -> None:
    releases = ["2.8.0", "2.9.1", "2.10.0+cpu", "2.11.0.dev20260101+cpu", "2.11.0.dev20260201", "2.11.0", "2.11.1a0"]
    assert sorted(reversed(releases), key=release_key) == releases


def test_a_program_is_the_same_under_every_release() -> None:
    drawn = replace(case(3, "2.8.0"), avoid=("a_rule",))
    given = replace(case(3, "2.13.0"), recipe=Recipe.parse("a_rule@x"), favour=("another",))
    result = CaseResult("", Status.CLEAN, recipe="a_rule@x")
    assert program_of(drawn, result) == program_of(given, result)
    assert program_of(drawn, result) != program_of(drawn, replace(result, recipe="b_rule@x"))
    assert program_of(drawn, result) != program_of(replace(drawn, dtype="bfloat16"), result)


def test_shards_have_one_coverage(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for number, of, units in (
            (1, 2, {"joint.a": 2}),
            (2, 2, {"joint.a": 3, "lowering.b": 1}),
            (1, 1, {"joint.c": 9}),
        ):
            settings = Settings(shard=Shard(number, of), seed=of, state=f"s{number}", max_cases=number)
            run = store.create_run(settings, {"torch": "2.13.0"})
            alone = {"fired": {}, "entries_fired": 1, "entries_matched_only": 1, "pairs": 4, "units": {
                f"joint.u{number}": {"tried": 3, "fired": 1, "verdicts": {"clean": 1}},
                "joint.p/e": {"tried": 1, "fired": 0, "why": "no"}}}  # fmt: skip
            if of == 2:
                store.finish_run(run, {"coverage": {"units": units, "passes": alone}})
        _, coverage = last_coverage(store) or ("", {})
    assert coverage["units"] == {"joint.a": 5, "lowering.b": 1}
    assert (coverage["passes"]["fired"], coverage["passes"]["entries_fired"]) == ({"pass": 2}, 2)
    assert coverage["passes"]["units"]["joint.p/e"] == {"tried": 2, "fired": 0, "why": "no"}
    assert coverage["passes"]["pairs"] == 8
