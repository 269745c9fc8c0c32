"""Two runs of the same programs, as under two releases of torch."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fxmorph.commands.compare import compare
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.finding_parts import UnitCase
from fxmorph.core.shard import Shard
from fxmorph.core.store import Store
from fxmorph.events import SCHEMA
from fxmorph.model import (
    BugClass,
    Case,
    CaseResult,
    CompileConfig,
    Finding,
    Kind,
    Seed,
    Status,
    ValuePlan,
    Verdict,
    VerdictCode,
)


def make(folder: Path, torch: str, verdicts: str, **settings: Any) -> Path:
    words = {"f": Status.FINDING, "c": Status.CLEAN, "t": Status.TIE, "e": Status.EDGE_CASE, "s": Status.SKIPPED}
    with Store(folder) as store:
        told = Settings(paths=("corpus",), **settings)
        run = store.create_run(told, {"torch": torch})
        for number, letter in enumerate(verdicts):
            if letter == " " or (told.shard is not None and not told.shard.takes(number)):
                continue
            case = Case(
                Seed(f"s{number}.py", "module", f"h{number}"), 0, 0, (ValuePlan.SEED,), CompileConfig(), torch=torch
            )
            code = {"t": VerdictCode.TIE, "e": VerdictCode.ONE_SIZED_STRIDE}.get(letter)
            said = (Verdict(words[letter], slot="out0", code=code),) if code else ()
            kinds = (Kind.VALUE,) if letter == "f" else ()
            store.add_result(run, number, case, CaseResult(case.id, words[letter], kinds, verdicts=said))
            if letter == "f":
                finding = Finding(
                    f"{number}f",
                    case.id,
                    case.seed.path,
                    "",
                    kinds,
                    BugClass.UGO,
                    "inductor",
                    "joint.u",
                    "",
                    "x",
                    "",
                    "",
                )
                store.add_finding(run, finding, "")
        store.finish_run(run, {"cases": len(verdicts)})
    return folder


#: The verdicts of two runs on a program, (f)inding, (c)lean, (t)ie, (e)dge case, (s)kipped or none, and the change.
PROGRAMS = (
    ("c", "f", "new"),
    ("f", "c", "fixed"),
    ("f", "f", "still failing"),
    ("f", "s", "not judged in one"),
    ("c", "t", "changed only in rounding"),
    ("c", "e", "explained otherwise"),
    ("c", "c", "same"),
    ("s", "s", "same"),
    (" ", "c", "not judged in one"),
    ("t", "t", "same"),
    (" ", "f", "not judged in one"),
)
OLD, NEW = ("".join(row[side] for row in PROGRAMS) for side in (0, 1))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    return str(make(tmp_path / "a", "2.8.0", OLD)), str(make(tmp_path / "b", "2.13.0", NEW))


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in lines:
        jsonschema.validate(line, SCHEMA)
    return {line.get("seed", "end"): line for line in lines}


def test_every_change_is_told(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(Settings(json=True), *pair) == 1
    lines = told(capsys)
    changes = {f"s{number}.py": change for number, (_, _, change) in enumerate(PROGRAMS)}
    assert {seed: line["change"] for seed, line in lines.items() if seed != "end"} == {
        seed: change for seed, change in changes.items() if change != "same"
    }
    assert lines["end"]["counts"] == Counter(changes.values())
    assert (lines["s0.py"]["finding_before"], lines["s0.py"]["finding_after"]) == ("", "0f")
    assert (lines["s1.py"]["finding_before"], lines["s1.py"]["finding_after"]) == ("1f", "")
    assert (lines["s8.py"]["verdict_before"], lines["s3.py"]["verdict_after"]) == ("", "skipped")


def test_the_table_names_causes_once(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(Settings(), *pair) == 1
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "from torch 2.8.0 to torch 2.13.0"
    assert [" ".join(line.split()) for line in text[2:5]] == [
        "new 1 clean value (0f) joint.u s0.py (as it is)",
        "fixed 1 value (1f) clean joint.u s1.py (as it is)",
        "still failing 1 value (2f) value (2f) joint.u s2.py (as it is)",
    ]
    assert [line.split("  ")[0] for line in text[5:7]] == ["not judged in one"] * 2
    assert text[-1].startswith("programs: 1 new, 1 fixed, 1 still failing, 1 changed only in rounding")


def test_nothing_new_is_well(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(Settings(), pair[0], pair[0]) == 0
    assert "0 new, 0 fixed, 3 still failing" in capsys.readouterr().out


def test_runs_of_one_folder_are_named_by_their_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make(make(tmp_path / "a", "2.8.0", OLD), "2.13.0", NEW)
    with Store(place, write=False) as store:
        ids = [run.id for run in store.runs()]
    here = Settings(state=str(place), json=True)
    assert compare(here, *ids) == 1
    assert told(capsys)["end"]["counts"]["fixed"] == 1
    assert compare(here, str(place), ids[0]) == 1  # of a folder the last one, here turned about
    assert told(capsys)["s1.py"]["change"] == "new"
    with pytest.raises(ConfigError, match="no run of that id"):
        compare(here, ids[0], "zz")


def test_shards_are_one_run(tmp_path: Path, pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        make(tmp_path / "shards", "2.13.0", NEW, shard=Shard(number, 2), state=f"s{number}")
    compare(Settings(json=True), *pair)
    whole = told(capsys)
    compare(Settings(json=True), pair[0], str(tmp_path / "shards"))
    assert told(capsys) == whole


def test_units_alone_are_compared_by_what_they_are_accused_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (make(tmp_path / name, torch, "c") for name, torch in (("a", "2.8.0"), ("b", "2.13.0")))
    alone = Finding("u1", "g", "made", "", (Kind.DTYPE,), BugClass.IOT, "inductor", "joint.p", "", "u1", "", "")
    with Store(a) as store:
        (run,) = store.runs()
        for id, graph in (("u1", "g1"), ("u2", "g2")):
            unit_case = UnitCase("pass", graph, "made", "seed", "", "", {"joint.p": 1}, ())
            store.add_finding(run.id, replace(alone, id=id, case_id=graph, seed=id, unit_case=unit_case), "")
    with Store(b) as store:
        (run,) = store.runs()
        store.add_passes(run.id, 0, "made", {"pairs": [{"unit": "joint.p", "graph": "g1", "status": "clean"}]})
    assert compare(Settings(json=True), str(a), str(b)) == 0
    lines = told(capsys)
    assert (lines["u1"]["change"], lines["u2"]["change"]) == ("fixed", "not judged in one")


def test_runs_of_other_programs_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = make(tmp_path / "a", "2.8.0", "c"), make(tmp_path / "b", "2.13.0", " c", seed=3)
    assert compare(Settings(), str(a), str(b)) == 5
    said = capsys.readouterr().err
    assert "campaign seeds 0 and 3" in said and "no program in common" in said
