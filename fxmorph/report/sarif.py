"""SARIF 2.1.0 of a run's findings, as code scanning services read it.

The format: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from fxmorph.core.store import DiskError
from fxmorph.core.versions import version_of
from fxmorph.events import Checked, Event, FindingMade
from fxmorph.model import BugClass, Status
from fxmorph.triage.folder.public_threads import known_as
from fxmorph.triage.folder.title import what

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
#: The key of the fingerprint; another number when findings are keyed in another way.
FINGERPRINT = "fxmorphFinding/v1"
_RULES: dict[BugClass, str] = {
    BugClass.UGO: "A graph pass of the compiler changes what the program means.",
    BugClass.ILP: "The compiled program gives other strides or offsets than eager.",
    BugClass.IOT: "The compiled program gives another dtype than eager.",
    BugClass.BAM: "The compiled program aliases or mutates what eager does not, or the reverse.",
    BugClass.IOD: "A decomposition does not mean what the operator means.",
    BugClass.KC: "Fusion or generated code changes what the program computes.",
}
#: The rule of seeds that were checked and not investigated.
UNCLASSIFIED, _UNCLASSIFIED = "miscompiled", "The compiled program does not do what eager does."


class Sarif:
    """Gathers findings and writes the file when closed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._results: list[dict[str, Any]] = []

    def handle(self, event: Event) -> None:
        if isinstance(event, FindingMade) and not event.duplicate_of:
            self._results.append(_result(event))
        elif isinstance(event, Checked) and event.verdict in (Status.FINDING, Status.KNOWN):
            self._results.append(_checked(event))

    def close(self) -> None:
        """Write the file; raises :class:`DiskError`."""
        try:
            self._file.write_text(json.dumps(_log(self._results), indent=1, ensure_ascii=False) + "\n", "utf-8")
        except OSError as error:
            raise DiskError(f"{self._file}: cannot write the SARIF report ({error.strerror})") from None


def _log(results: list[dict[str, Any]]) -> dict[str, Any]:
    rules = [
        {"id": c, "shortDescription": {"text": text}, "defaultConfiguration": {"level": "error"}}
        for c, text in [*((c.value, text) for c, text in _RULES.items()), (UNCLASSIFIED, _UNCLASSIFIED)]
    ]
    driver = {
        "name": "fxmorph",
        "version": version_of("fxmorph"),
        "semanticVersion": version_of("fxmorph"),
        "rules": rules,
    }
    base = {"SRCROOT": {"uri": Path.cwd().as_uri() + "/"}}
    run = {"tool": {"driver": driver}, "originalUriBaseIds": base, "columnKind": "unicodeCodePoints"}
    return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [{**run, "results": results}]}


def _result(event: FindingMade) -> dict[str, Any]:
    f = event.finding
    result = {
        "ruleId": f.bug_class.value,
        "ruleIndex": list(_RULES).index(f.bug_class),
        "level": "note" if event.known else "error",
        "message": {"text": f"torch.compile: {what(f)}, {f.unit or f.stage}: {f.reason}"},
        "locations": [_location(f.seed)],
        "partialFingerprints": {FINGERPRINT: f.fingerprint},
        "properties": {
            "kinds": [str(k) for k in f.kinds], "stage": f.stage, "unit": f.unit, "recipe": f.recipe,
            "folder": event.folder, "likely": [one.id for one in f.likely],
        },
    }  # fmt: skip
    return {**result, **_suppressed(known_as(f) or event.known)}


def _checked(event: Checked) -> dict[str, Any]:
    """A seed that ``fxmorph check`` found miscompiled, which was not reduced: its class is not known yet."""
    kinds = [str(k) for k in event.kinds]
    result = {
        "ruleId": UNCLASSIFIED,
        "ruleIndex": len(_RULES),
        "level": "note" if event.known else "error",
        "message": {"text": f"torch.compile: {', '.join(kinds)}, {event.unit or event.stage}: {event.reason}"},
        "locations": [_location(event.seed)],
        "partialFingerprints": {FINGERPRINT: event.fingerprint},
        "properties": {"kinds": kinds, "stage": event.stage, "unit": event.unit},
    }
    return {**result, **_suppressed(event.known)}


def _suppressed(known: str) -> dict[str, Any]:
    return {"suppressions": [{"kind": "external", "justification": f"known: {known}"}]} if known else {}


def _location(seed: str) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _place(seed), "region": {"startLine": 1}}}


def _place(seed: str) -> dict[str, str]:
    """The seed's file, from the current folder where it lies below it."""
    file = Path(seed_file(seed))
    try:
        below = file.resolve().relative_to(Path.cwd().resolve())
    except ValueError:
        return {"uri": file.resolve().as_uri()}
    return {"uri": quote(str(PurePosixPath(below))), "uriBaseId": "SRCROOT"}


def seed_file(label: str) -> str:
    """The file of a seed's label, as ``model.py:Model[train]`` or ``seeds/a.py inference``."""
    head, ending, _ = label.partition(".py")
    return f"{head}{ending}" if ending else label.partition("[")[0]
