"""Events: their JSON fits the published schema, and both reporters take every one."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from fxmorph.events import (
    SCHEMA,
    Asking,
    CaseDone,
    Change,
    Checked,
    Conformed,
    CorpusMeasured,
    Event,
    FeaturesCovered,
    FindingMade,
    MutantTried,
    NightFinished,
    PairJudged,
    PassChecked,
    ProgramCompared,
    Progress,
    ProposalJudged,
    Proved,
    RuleListed,
    RuleShown,
    RunFinished,
    RunsCompared,
    RunStarted,
    SeedRefused,
    SessionEnded,
    Synthesis,
    UnitFired,
    UnitListed,
    Warned,
)
from fxmorph.model import BugClass, Finding, Kind, Level, Status
from fxmorph.report.jsonlines import JsonLines
from fxmorph.report.terminal import Terminal, spell_time

FINDING = Finding(
    id="ab12cd34",
    case_id="0" * 16,
    seed="corpus/seeds/norm[eval].py",
    recipe="layout_flip{k=2}@mul>add",
    kinds=(Kind.VALUE, Kind.ALIAS),
    bug_class=BugClass.BAM,
    stage="inductor",
    unit="post_grad_passes: reinplace_inplaceable_ops",
    triangle="variant-miscompiled",
    fingerprint="f" * 16,
    reason="3 of 64 elements differ",
    program="",
)
STARTED = RunStarted(
    "01234567", 7, "2.13.0", "cpu", ("cpu",), {"torch": "2.13.0", "g++": "12.2"}, 900.0, 2, 84, 70, ".fxmorph", ("n",)
)
FINISHED = RunFinished(
    "01234567",
    1,
    {"clean": 10, "finding": 2, "tie": 1},
    {"cpu": 13},
    ("ab12cd34",),
    known=1,
    duplicates=1,
    edge_cases=2,
    cases=13,
    coverage={"rules": 12},
    seconds={"compile": 75.0, "eager": 25.0},
    wall_s=605.0,
    report=".fxmorph/findings",
)
ALL: list[Event] = [
    STARTED,
    SeedRefused("bad.py", "does not parse: invalid syntax (line 3)"),
    CaseDone(0, "0" * 16, "a.py", 0, Status.CLEAN),
    CaseDone(1, "1" * 16, "a.py", 1, Status.FINDING, (Kind.VALUE,), "far", "r@s", "variant-miscompiled", wall_s=1.5),
    FindingMade(FINDING, ".fxmorph/findings/ab12cd34"),
    FindingMade(FINDING, "folder", known="pytorch/pytorch#195451"),
    FindingMade(FINDING, "folder", duplicate_of="ffff"),
    Checked("a.py", Status.FINDING, (Kind.DTYPE,), "inductor", "pointless_cumsum_replacement", "int64, not bfloat16"),
    Checked("b.py", Status.CLEAN),
    ProgramCompared(Change.NEW, "a.py", "r@s", "", "clean", (), "", "finding", (Kind.VALUE,), "ab12cd34"),
    RunsCompared("2.8.0", "2.13.0", {"new": 1}),
    NightFinished(3, "2.16.0.dev20261103+cpu", ("01234567",), 12, 2, 1, ("ab12",), (), ("cd34",), (), 1, "index.html"),
    Checked("c.py", Status.KNOWN, (Kind.VALUE,), "inductor", "", "far", "c" * 12, "baseline"),
    Warned("g++ is missing"),
    RuleListed(
        "layout_flip", "INDEX_EXACT", ("float32",), ("dtype",), ("ilp",), "op", "transforms/layout_flip.py", "x"
    ),
    RuleShown(
        "layout_flip", "Flips.", {"Why equivalent": "x"}, "def before(x): return x", "", "value", {"x": "..."}, (),
        {"k": "1, 2"}, ("float32",), False, (), "INDEX_EXACT", ("dtype",), {"ilp": "layout"},
        {"float32": {"level": "INDEX_EXACT"}}, ({"key": "0" * 32},), "transforms/layout_flip.py",
    ),
    ProposalJudged(
        "rule",
        "flips",
        "views.jsonl:3",
        "admitted",
        "10 shapes",
        "BIT_EXACT",
        {"float32": "BIT_EXACT"},
        ("gradient: differs for x = 0",),
        seconds=1.5,
    ),
    Proved("a", "float32", Level.BIT_EXACT, Level.REFUTED, "10 shapes", "FALSIFY-ONLY", (), "", 0.5, "bits differ"),
    Conformed("add", "float32", True, ""),
    MutantTried(
        "a", "float32", 3, "size", "proved wrongly", "2 -> 3", Level.BIT_EXACT, "TERM", ("these-integers",), 0.5,
        "def before(x): ...", "x = 1: before gives 1, after gives 2",
    ),
    UnitListed("joint.remove_noop_ops", "joint", "pass", True, "", "all", "torch._inductor.x", True),
    UnitFired("joint.p", "corpus/seeds/a.py inference", "joint", "0" * 16, 1, Status.CLEAN, outcome="proved"),
    PairJudged(
        "p.py:fold",
        "a.py",
        "post_grad",
        "inference",
        9,
        True,
        Status.FINDING,
        (Kind.VALUE,),
        "out0",
        "refuted",
        Level.REFUTED,
        "FALSIFY-ONLY",
        (),
        "",
        ("-%a", "+%b"),
        "seed",
        ("x = 1",),
        "",
    ),
    PassChecked("p.py:fold", "post_grad", 3, 9, 2, {"finding": 1, "clean": 1}, {"proved": 1}, {"BIT_EXACT": 1}, 2.5, 1),
    Synthesis("done", 900, 700, 90, 40, 9, 3, 2, 20, 1, 5, 8, 6, 1, 4000, {"BIT_EXACT": 8}, 12.5),
    CorpusMeasured({"module": 3}, 2, 1.5, {"api": FeaturesCovered(("torch.add",), ("torch.sin",))}, {"b.py": "why"}),
    Progress(3, None, 1, 30.0, 870.0, "judging"),
    Asking("m", 4, 3, 20, 9000, True, 0.01, 80.0),
    SessionEnded("spent", "3 of 3 calls are made", {"answered": 2, "time-out": 1}, 0, 3, 900, 80, True, None, 4.5, "f"),
    FINISHED,
]


def lines(events: list[Event]) -> list[dict[str, Any]]:
    stream = io.StringIO()
    reporter = JsonLines(stream)
    for event in events:
        reporter.handle(event)
    reporter.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def text(events: list[Event], clock: list[float] | None = None, **options: Any) -> str:
    stream = io.StringIO()
    ticks = iter(clock or [0.0] * 100)
    reporter = Terminal(stream, clock=lambda: next(ticks), **options)
    for event in events:
        reporter.handle(event)
    reporter.close()
    return stream.getvalue()


def test_every_line_fits_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    made = lines(ALL)
    assert len(made) == len(ALL) - 2  # progress is for people
    for line in made:
        validator.validate(line)


@pytest.mark.parametrize("spoil", [{"event": "other"}, {"verdict": "fine"}, {"extra": 1}, {"kinds": ["odd"]}])
def test_the_schema_refuses(spoil: dict[str, Any]) -> None:
    line = {**Checked("a.py", Status.CLEAN).to_json(), **spoil}
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(line)


def test_every_event_is_here_and_documented() -> None:
    assert {type(event) for event in ALL} == set(get_args(Event))
    doc = (Path(__file__).parents[3] / "docs" / "json-events.md").read_text(encoding="utf-8")
    for alternative in SCHEMA["oneOf"]:
        word = alternative["properties"]["event"]["const"]
        section = re.search(rf"## `{word}`\n(.*?)(?=\n## |\Z)", doc, re.S)
        assert section, word
        named = set(re.findall(r"^\| `(\w+)` \|", section[1], re.M))
        assert named == set(alternative["properties"]) - {"event"}, word
    words = {alternative["properties"]["event"]["const"] for alternative in SCHEMA["oneOf"]}
    # `fxmorph coverage` prints its line itself.
    assert set(re.findall(r"^## `(.+)`$", doc, re.M)) - {"coverage"} == words


def test_checked_is_as_the_interface_says() -> None:
    assert list(Checked("a.py", Status.CLEAN).to_json()) == [
        "event",
        "seed",
        "verdict",
        "kinds",
        "stage",
        "unit",
        "reason",
        "fingerprint",
        "known",
        "plan",
    ]


def test_plain_text() -> None:
    said = text(ALL)
    assert "fxmorph run 01234567: seed 7, torch 2.13.0 on cpu, g++ 12.2\n" in said
    assert "84 seeds, 70 rules, rungs cpu, 2 workers, at most 15m 00s; state in .fxmorph\n" in said
    assert "refused bad.py: does not parse" in said
    found = "value,alias at inductor (post_grad_passes: reinplace_inplaceable_ops); corpus/seeds/norm[eval].py"
    assert f"finding ab12cd34: {found} by layout_flip{{k=2}}@mul>add: 3 of 64 elements differ\n" in said
    assert "known (pytorch/pytorch#195451) ab12cd34" in said
    assert "duplicate" not in said.split("Cases by verdict")[0]
    assert re.search(r"│ ab12cd34 │ wrong values, shared\S* m?…?\S* │ post_grad_passes: reinplace", said)
    assert "│ corpus/seeds/norm[eval].py" in said and "`fxmorph replay ID`" in said
    assert "CPU time: compile 75 s (75%), eager 25 s (25%)" in said
    last = "13 cases (10 clean, 2 differ, 1 neither), 1 finding, 1 known, 1 duplicate, 2 edge cases in 10m 05s"
    assert said.splitlines()[-1] == f"{last}; report: .fxmorph/findings (exit code 1)"
    assert "\x1b" not in said


@pytest.mark.parametrize("what", ["unconfirmed", "uninvestigated"])
def test_the_last_line_says_what_else_the_exit_code_is_for(what: str) -> None:
    last = text([replace(FINISHED, findings=(), counts={"clean": 3, what: 1})]).splitlines()[-1]
    assert f", 1 {what} in 10m 05s" in last and last.endswith("(exit code 1)")


def test_of_check_the_fingerprint_and_the_next_step_are_said() -> None:
    started = replace(STARTED, command="check", seeds=1, jobs=1)
    found = Checked("a.py", Status.FINDING, (Kind.VALUE,), "inductor", "", "far", "a" * 12)
    finished = replace(FINISHED, findings=("a" * 12,), known=0, duplicates=0, edge_cases=0, cases=1, report="")
    said = text([started, found, finished])
    assert "fxmorph check 01234567: seed 7" in said
    assert "1 seed, rungs cpu, 1 worker, at most" in said
    assert f"finding      a.py  value inductor {'a' * 12}: far\n" in said
    assert "`fxmorph run PATH` blames and reduces" in said and "fxmorph show" not in said
    assert said.splitlines()[-1] == "1 case, 1 finding, 0 known in 10m 05s (exit code 1)"
    assert "fxmorph run PATH" not in text([started, replace(finished, findings=())])
    assert "error" in text([Checked("b.py", Status.ERROR, reason="no data")], quiet=True)


def test_quiet_is_findings_and_the_last_line() -> None:
    said = text(ALL, quiet=True).splitlines()
    assert [line.split()[0] for line in said] == ["finding", "known", "finding", "13"]


def test_verbose_shows_cases() -> None:
    assert "case 1 finding value a.py r@s: far" in text(ALL, verbose=1)
    assert "case 0 clean" not in text(ALL, verbose=1)
    assert "case 0 clean" in text(ALL, verbose=2)
    assert "duplicate of ffff: ab12cd34" in text(ALL, verbose=1)


def test_progress_about_every_ten_seconds() -> None:
    progress = Progress(3, 10, 1, 30.0, 70.0, "judging")
    said = text([progress] * 4, clock=[0.0, 4.0, 10.5, 10.5, 15.0, 19.0])
    assert said == "judging: 3 of 10 cases (0.1 a second), 1 finding, 1m 10s left, 30s gone\n"


def test_spell_time() -> None:
    assert [spell_time(s) for s in (0, 59.4, 185, 7800, -1)] == ["0s", "59s", "3m 05s", "2h 10m", "0s"]


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_line_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = FakeTerminal()
    reporter = Terminal(stream)
    for event in ALL:
        reporter.handle(event)
    reporter.close()
    assert "\x1b[?25l" in stream.getvalue() and stream.getvalue().rstrip().find("\x1b[?25h") > 0
    assert "\x1b[1;31m" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    stream = FakeTerminal()
    Terminal(stream).handle(FindingMade(FINDING, "folder"))
    assert "31m" not in stream.getvalue()
