"""What a unit does to a graph, as a few lines that a person reads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from fxmorph.model import Finding
from fxmorph.triage.folder.graph_files import exhibit_of

#: Lines that are shown at most; a longer change says less than the graphs beside the issue.
MOST_LINES = 24
#: What stands around a call in the text of a graph: its type, what is freed after it, what all new tensors have, where
#: its operator lies.
_TYPE = re.compile(r': "[^"]*"')
_FREED = re.compile(r";\s+(\w+ = )+None$")
_AS_EVER = re.compile(
    r", (layout = torch\.strided|device = device\(type='cpu'\)|pin_memory = False|requires_grad = False)"
)
_OPERATOR = re.compile(r"torch\.ops\.(\w+\.\w+)(?:\.default)?\b")


def graph_change(finding: Finding) -> list[str]:
    """Lines of a diff from the graph before the guilty unit to that after it; none where it does not say it all."""
    pair = next((pair for pair in exhibit_of(finding).graphs if pair.title != "rewrites"), None)
    if pair is None or not (pair.before and pair.after):
        return []
    before, after = (list(_calls(text)) for text in (pair.before, pair.after))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    shown = [line for line in lines if not line.startswith("@@")]
    return shown if 0 < len(shown) <= MOST_LINES else []


def _calls(text: str) -> Iterator[str]:
    for line in text.splitlines():
        line = line.strip()
        if line.startswith(("#", "class ")) or not line:
            continue
        yield _OPERATOR.sub(r"\1", _AS_EVER.sub("", _FREED.sub("", _TYPE.sub("", line))))
