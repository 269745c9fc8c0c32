"""One JSON object a line on stdout; the schema is ``fxmorph.events.SCHEMA``."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from fxmorph.events import FOR_PEOPLE, Event


class JsonLines:
    """Writes each event at once, so that a reader sees it when it happens."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def handle(self, event: Event) -> None:
        if not isinstance(event, FOR_PEOPLE):
            self._stream.write(json.dumps(event.to_json(), allow_nan=False, ensure_ascii=False) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Nothing is kept back."""
