"""Every report says what a finding is known by, and which public issues it may be."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from reportstate import finding

from fxmorph.commands.findings import show_finding
from fxmorph.core.config import Settings
from fxmorph.core.finding_parts import Likely
from fxmorph.core.store import Store
from fxmorph.events import FindingMade, RunFinished
from fxmorph.model import Finding
from fxmorph.report.collect import collect
from fxmorph.report.html import page
from fxmorph.report.junit import JUnit
from fxmorph.report.terminal import Terminal
from fxmorph.triage.folder.issue import issue_text

HOW = "gone with a local patch for #7: it is mended"
KNOWN = finding(1, known="pytorch/pytorch#7", known_by=HOW)
LIKE = finding(2, likely=(Likely("pytorch/pytorch#8", "some fold", 0.834, "operators flip"),))
LINE = "likely known: pytorch/pytorch#8 (0.83) some fold [operators flip]"


def shown(tmp_path: Path, one: Finding, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What ``fxmorph show`` prints of the stored finding, and the page."""
    settings = Settings(state=str(tmp_path / "st"))
    with Store(settings.state_dir) as store:
        store.add_finding(store.create_run(settings, {"torch": "2.13.0", "device": "cpu", "seed": 0}), one, "")
    show_finding(settings, one.id)
    return capsys.readouterr().out, page(collect([settings.state_dir]))


def test_of_a_known_finding_by_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, html = shown(tmp_path, KNOWN, capsys)
    assert f"known: pytorch/pytorch#7; {HOW}" in text and HOW in html
    assert "Possibly related" not in text and f"Matches a known issue: pytorch/pytorch#7; {HOW}" in text
    junit = JUnit(tmp_path / "out.xml")
    for event in (FindingMade(KNOWN, "f", KNOWN.known), RunFinished("r", 0, {}, {}, wall_s=1.0)):
        junit.handle(event)
    junit.close()
    (skipped,) = ET.parse(tmp_path / "out.xml").getroot().iter("skipped")
    assert skipped.get("type") == f"pytorch/pytorch#7; {HOW}"


def test_of_another_what_it_may_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, html = shown(tmp_path, LIKE, capsys)
    assert LINE in text and "pytorch/pytorch#8 (0.83) some fold" in html
    assert "\nPossibly related: #8\n" in issue_text(LIKE, {}, ())
    assert "Possibly related" not in issue_text(replace(LIKE, known="pytorch/pytorch#7"), {}, ())


def test_the_terminal_says_both() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    for one in (KNOWN, LIKE):
        terminal.handle(FindingMade(one, "folder", one.known))
    assert f"known (pytorch/pytorch#7; {HOW}) 0001beef0000" in stream.getvalue() and LINE in stream.getvalue()
