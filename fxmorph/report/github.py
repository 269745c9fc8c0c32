"""GitHub annotations: workflow commands that a job prints, shown beside the code."""

from __future__ import annotations

import sys
from typing import TextIO

from fxmorph.events import Checked, Event, FindingMade, SeedRefused
from fxmorph.model import Status
from fxmorph.report.sarif import seed_file
from fxmorph.triage.folder.title import what


class GitHub:
    """``::error file=...::`` for a finding and for what does not load, ``::notice`` for what is known.

    Printed to ``stream``, by default stderr, so that event lines on stdout stay whole: the runner reads both.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def handle(self, event: Event) -> None:
        if isinstance(event, FindingMade) and not event.duplicate_of:
            f = event.finding
            title = f"torch.compile: {what(f)}"
            text = f"{f.unit or f.stage}: {f.reason}\n{event.folder}/repro.py"
            self._print("notice" if event.known else "error", f.seed, title, text)
        elif isinstance(event, Checked) and event.verdict in (Status.FINDING, Status.KNOWN):
            title = f"torch.compile: {', '.join(event.kinds)}"
            self._print(
                "notice" if event.known else "error", event.seed, title, f"{event.unit or event.stage}: {event.reason}"
            )
        elif isinstance(event, SeedRefused):
            self._print("warning", event.seed, "seed does not load", event.reason)
        elif isinstance(event, Checked) and event.verdict is Status.ERROR:
            self._print("warning", event.seed, "seed was not judged", event.reason)

    def _print(self, level: str, seed: str, title: str, text: str) -> None:
        file, title = (_property(part) for part in (seed_file(seed), title))
        print(f"::{level} file={file},line=1,title={title}::{_data(text)}", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is kept back."""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
