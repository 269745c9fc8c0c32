"""``fxmorph replay``: stored findings again."""

from __future__ import annotations

from collections.abc import Sequence

from fxmorph.commands.columns import print_line
from fxmorph.commands.usage import fail, require_findings
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import Store


def replay(settings: Settings, ids: Sequence[str], every: bool) -> int:
    """Run the findings with these ids, or every one; returns the exit code."""
    require_findings(settings, ids, every)
    if every:
        with Store(settings.state_dir, write=False) as store:
            if not store.findings():
                fail(f"no findings in {settings.state}: nothing to replay", Exit.NOTHING_RAN)
    from fxmorph.triage.folder.replay import replay as replay_findings

    return replay_findings(settings, list(ids), every, print_line)
