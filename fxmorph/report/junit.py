"""JUnit XML of a run: one test case a case, or a seed that was checked; failures are findings."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from fxmorph.core.store import DiskError
from fxmorph.events import CaseDone, Checked, Event, FindingMade, RunFinished, SeedRefused
from fxmorph.model import Status
from fxmorph.triage.folder.public_threads import known_as

_FAILED = (Status.FINDING, Status.UNSOUND_REWRITE)
_SKIPPED = (Status.KNOWN, Status.SKIPPED, Status.UNSUPPORTED, Status.INCONCLUSIVE)
#: Characters that XML 1.0 cannot hold, which messages of compilers do.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnit:
    """Gathers cases and writes the file when closed.  The suites are ``cases`` and ``findings``.

    A case that differs is a failure only by the finding made of it: what was known, excused on a
    closer look or not looked at is a skipped one.  Of ``fxmorph check`` each verdict stands by itself.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._cases: list[ET.Element] = []
        self._findings: list[ET.Element] = []
        self._seconds = 0.0

    def handle(self, event: Event) -> None:
        if isinstance(event, CaseDone):
            name = f"case {event.index}" + (f": {event.recipe}" if event.recipe else "")
            self._add_case(event.seed, name, event.verdict, event.reason, event.wall_s, final=False)
        elif isinstance(event, Checked):
            self._add_case(event.seed, "as it is", event.verdict, event.reason, 0.0, final=True)
        elif isinstance(event, SeedRefused):
            self._add_case(event.seed, "load", Status.ERROR, event.reason, 0.0, final=True)
        elif isinstance(event, FindingMade) and not event.duplicate_of:
            self._add_finding(event)
        elif isinstance(event, RunFinished):
            self._seconds += event.wall_s

    def _add_case(self, seed: str, name: str, verdict: Status, reason: str, wall_s: float, final: bool) -> None:
        case = ET.Element("testcase", classname=_clean(seed), name=_clean(name), time=f"{wall_s:.3f}")
        if verdict is Status.ERROR:
            _said(case, "error", verdict, reason)
        elif verdict in _FAILED and (final or verdict is Status.UNSOUND_REWRITE):
            _said(case, "failure", verdict, reason)
        elif verdict in _SKIPPED or verdict in _FAILED:
            _said(case, "skipped", verdict, reason)
        self._cases.append(case)

    def _add_finding(self, event: FindingMade) -> None:
        f = event.finding
        name = f"{f.id}: {', '.join(f.kinds)} at {f.unit or f.stage}"
        case = ET.Element("testcase", classname=_clean(f.seed), name=_clean(name), file=f.seed, time="0.000")
        if event.known:
            _said(case, "skipped", known_as(f) or event.known, f.reason)
        else:
            _said(case, "failure", ", ".join(f.kinds), f"{f.reason}\nrepro: {event.folder}/repro.py")
        self._findings.append(case)

    def close(self) -> None:
        """Write the file; raises :class:`DiskError`."""
        root = ET.Element("testsuites", name="fxmorph", time=f"{self._seconds:.1f}")
        for name, cases in (("cases", self._cases), ("findings", self._findings)):
            counts = Counter(child.tag for case in cases for child in case)
            suite = ET.SubElement(
                root, "testsuite", name=name, tests=str(len(cases)), failures=str(counts["failure"]),
                errors=str(counts["error"]), skipped=str(counts["skipped"]), time=f"{self._seconds:.1f}",
            )  # fmt: skip
            suite.extend(cases)
        ET.indent(root)
        try:
            ET.ElementTree(root).write(self._file, encoding="utf-8", xml_declaration=True)
        except OSError as error:
            raise DiskError(f"{self._file}: cannot write the JUnit report ({error.strerror})") from None


def _said(case: ET.Element, tag: str, kind: str, text: str) -> None:
    first = text.partition("\n")[0]
    ET.SubElement(case, tag, type=_clean(str(kind)), message=_clean(first)[:400]).text = _clean(text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
