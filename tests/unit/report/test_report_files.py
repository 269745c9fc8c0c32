"""JUnit XML, SARIF, GitHub annotations; unit tests and graphs in a finding's folder."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from reportstate import finding

from fxmorph.core.config import ConfigError, load_settings
from fxmorph.core.finding_parts import Reduced, Repro
from fxmorph.core.store import DiskError
from fxmorph.events import CaseDone, Checked, FindingMade, RunFinished, SeedRefused
from fxmorph.model import Kind, Status
from fxmorph.report.github import GitHub
from fxmorph.report.junit import JUnit
from fxmorph.report.sarif import FINGERPRINT, Sarif, seed_file
from fxmorph.triage.folder.graph_files import graph_files
from fxmorph.triage.folder.issue import issue_text, not_reduced
from fxmorph.triage.folder.program_text import readable
from fxmorph.triage.folder.regression import regression_text
from fxmorph.triage.folder.repro import repro_text

EVENTS: list[Any] = [
    SeedRefused("seeds/a.py", "line 1"),
    CaseDone(0, "c0", "seeds/b.py", 0, Status.CLEAN),
    CaseDone(1, "c1", "seeds/b.py", 1, Status.FINDING, (Kind.VALUE,), "differs \x1b[0m", "flip@mul"),
    CaseDone(2, "c2", "seeds/b.py", 2, Status.ERROR, reason="harness"),
    CaseDone(3, "c3", "seeds/b.py", 3, Status.UNSOUND_REWRITE, reason="adds one"),
    FindingMade(finding(1), "st/findings/1"),
    FindingMade(finding(2, known="pytorch/pytorch#7"), "st/findings/2", "pytorch/pytorch#7"),
    FindingMade(finding(3), "", "", duplicate_of="1"),
    Checked("seeds/c.py", Status.FINDING, (Kind.STRIDE,), "inductor", "", "strides: a, b", "c" * 12),
    Checked("seeds/d.py", Status.KNOWN, (Kind.VALUE,), "inductor", "", "far", "d" * 12, "baseline"),
    RunFinished("r", 1, {}, {}, wall_s=3.5),
]

_MESSAGE = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"]}
#: What of SARIF 2.1.0 code scanning needs (GitHub's "SARIF support for code scanning"), and no unknown top-level keys.
NEEDED = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "items": {"required": ["id", "shortDescription"],
                                                  "properties": {"shortDescription": _MESSAGE}},
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "message", "locations", "partialFingerprints"],
                            "properties": {
                                "message": _MESSAGE,
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                                "suppressions": {
                                    "type": "array",
                                    "items": {"required": ["kind"],
                                              "properties": {"kind": {"enum": ["inSource", "external"]}}},
                                },
                                "locations": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {"required": ["uri"]},
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip


def tell(reporter: Any, events: list[Any] = EVENTS) -> None:
    for event in events:
        reporter.handle(event)
    reporter.close()


def test_junit(tmp_path: Path) -> None:
    tell(JUnit(tmp_path / "out.xml"))
    root = ET.parse(tmp_path / "out.xml").getroot()
    cases, findings = root.findall("testsuite")
    assert (cases.get("tests"), cases.get("failures"), cases.get("errors"), cases.get("skipped")) == (
        "7",
        "2",
        "2",
        "2",
    )
    assert (findings.get("tests"), findings.get("failures"), findings.get("skipped")) == ("2", "1", "1")
    failed = findings.find("testcase/failure")
    assert failed is not None and "repro: st/findings/1/repro.py" in (failed.text or "")
    assert root.get("time") == "3.5"


def test_sarif_holds_what_code_scanning_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tell(Sarif(tmp_path / "out.sarif"))
    log = json.loads((tmp_path / "out.sarif").read_text())
    jsonschema.validate(log, NEEDED)
    (run,) = log["runs"]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"])
    assert [r["level"] for r in run["results"]] == ["error", "note", "error", "note"]
    assert run["results"][2]["partialFingerprints"] == {FINGERPRINT: "c" * 12}
    assert run["results"][3]["suppressions"][0]["justification"] == "known: baseline"
    assert run["results"][0]["partialFingerprints"] == {FINGERPRINT: "0001beef0000"}
    assert run["results"][1]["suppressions"][0]["justification"] == "known: pytorch/pytorch#7"
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "corpus/seeds/some.py", "uriBaseId": "SRCROOT"}


def test_fingerprints_do_not_depend_on_where_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        tell(Sarif(tmp_path / name / "out.sarif"))
        log = json.loads((tmp_path / name / "out.sarif").read_text())
        seen.append([r["partialFingerprints"] for r in log["runs"][0]["results"]])
    assert seen[0] == seen[1]


def test_github_annotations_are_one_line_each() -> None:
    stream = io.StringIO()
    tell(GitHub(stream), [*EVENTS, Checked("seeds/e.py", Status.ERROR, reason="does not parse")])
    lines = stream.getvalue().splitlines()
    assert [re.match(r"::(\w+) file=([^,]+),line=1,title=[^:]+::.", line).groups() for line in lines] == [  # type: ignore[union-attr]
        ("warning", "seeds/a.py"),
        ("error", "corpus/seeds/some.py"),
        ("notice", "corpus/seeds/some.py"),
        ("error", "seeds/c.py"),
        ("notice", "seeds/d.py"),
        ("warning", "seeds/e.py"),
    ]
    assert "%0A" in lines[1]


@pytest.mark.parametrize(
    "label,file",
    [("a/b.py", "a/b.py"), ("m.py:Model[train]", "m.py"), ("s.py inference variant 2", "s.py"), ("x.pt2", "x.pt2")],
)
def test_the_file_of_a_seed(label: str, file: str) -> None:
    assert seed_file(label) == file


@pytest.mark.parametrize("reporter", [JUnit, Sarif])
def test_a_file_that_cannot_be_written_is_one_line(reporter: Any, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="cannot write"):
        reporter(tmp_path / "no" / "such").close()


def test_forms_of_the_option(tmp_path: Path) -> None:
    assert load_settings({"report": ["junit=a.xml", "github"]}, tmp_path, {}).report == ("junit=a.xml", "github")
    for wrong in ("junit", "github=x", "csv=a", "sarif="):
        with pytest.raises(ConfigError, match="junit=FILE, sarif=FILE, github"):
            load_settings({"report": [wrong]}, tmp_path, {})
    (tmp_path / "fxmorph.toml").write_text('report = ["sarif=out/a.sarif", "github"]\n')
    assert load_settings({}, tmp_path, {}).report == (f"sarif={tmp_path}/out/a.sarif", "github")


# -- a finding's folder --------------------------------------------------------


def test_a_unit_test_has_the_program_and_one_method() -> None:
    text = regression_text(finding(0))
    compile(text, "test.py", "exec")
    assert "def test_value_remove_noop_ops(self):" in text
    assert "sys" not in text and "os._exit" not in text
    compile(regression_text(finding(0, kinds=(Kind.CRASH,))), "test.py", "exec")


def test_a_reduced_graph_has_a_short_repro() -> None:
    text = repro_text(finding(0))
    assert len(text.splitlines()) <= 30
    assert "def fn(x):" in text and "fallback_random" not in text
    both = repro_text(finding(0, kinds=(Kind.VALUE, Kind.STRIDE, Kind.MUTATION, Kind.GRADIENT)))
    compile(both, "repro.py", "exec")
    assert len(both.splitlines()) <= 44


def test_dynamos_names_are_shortened_where_they_stay_apart() -> None:
    text = "def fn(l_x_, l_y_, x, l_self_modules_lin_parameters_weight_, l_if_): return l_x_"
    assert readable(text) == "def fn(l_x_, y, x, lin_weight, l_if_): return l_x_"


def test_graphs_are_text_and_picture() -> None:
    files = graph_files(finding(0))
    assert sorted(files) == ["after.svg", "after.txt", "before.svg", "before.txt"]
    ET.fromstring(files["before.svg"])
    assert "aten.clone" in files["before.svg"] and "aten.alias" in files["after.svg"]


def test_an_issue_shows_expected_and_actual_values_beside_fp64() -> None:
    text = issue_text(finding(0), {"torch": "2.13.0"}, finding(0).ladder)
    assert "Under `torch.compile` (torch 2.13.0) this program returns other values than in eager, without a" in text
    assert "| [0, 3] | 1.5 | nan | 1.4999 | inf | 1e-08 |" in text
    assert "The first backend that differs from eager is `inductor`." in text


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"reduced": Reduced(3, 9)}, ""),
        ({}, ""),
        ({"reduced": Reduced(0, 0)}, "needs the callable"),
        ({"reduced": Reduced(0, 0, finished=False)}, "took its process with it"),
        ({"reduced": Reduced(9, 7, finished=False)}, "`fxmorph reduce 0000beef0000` goes on"),
        ({"reduced": Reduced(0), "repro": Repro({"backend": "inductor", "sizes": [3, 5]})}, "another size"),
    ],
)
def test_what_is_not_reduced_says_why(parts: dict[str, Any], words: str) -> None:
    made = finding(0, **parts)
    assert words in not_reduced(made) and bool(words) == bool(not_reduced(made))
    assert (not_reduced(made) in issue_text(made, {}, ())) and (
        "The program is not" in issue_text(made, {}, ())
    ) == bool(words)
