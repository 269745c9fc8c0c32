"""``fxmorph reduce``: smaller programs of findings, or what they show under other releases of torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fxmorph.commands.columns import print_line
from fxmorph.commands.reporters import reporting
from fxmorph.commands.usage import require_findings
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit


def reduce(settings: Settings, ids: Sequence[str], every: bool, pythons: Sequence[str]) -> int:
    """Reduce the findings with these ids, or all that runs left over; returns the exit code.

    ``pythons``: run their repros by these interpreters instead.
    """
    require_findings(settings, ids, every)
    if pythons:
        from fxmorph.core.versions import versions
        from fxmorph.triage.folder.releases import try_releases

        tried = try_releases(settings, ids, pythons, versions(), print_line)
        return Exit.OK if tried else Exit.NOTHING_RAN
    from fxmorph.commands.reduce import reduce_findings

    with reporting(settings) as emit:
        code = reduce_findings(settings, list(ids), emit)
    if code == Exit.NOTHING_RAN:
        print("fxmorph: nothing was reduced", file=sys.stderr)
    return code
