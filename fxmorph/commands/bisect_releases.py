"""``fxmorph bisect``: the first release of torch that shows a finding."""

from __future__ import annotations

from collections.abc import Sequence

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.lifetime import GONE, STILL_THERE, change_in_words


def bisect(settings: Settings, id: str, pythons: Sequence[str], every: bool) -> Exit:
    """Run the finding's repro by these interpreters; say where what it shows changes.  5 where none could run it.

    Raises ``StoreError`` where there is no such finding, :class:`ConfigError` where there is nothing to run it by.
    """
    if not pythons:
        raise ConfigError("name interpreters of other releases of torch: --python ENV/bin/python, several times")
    from fxmorph.core.versions import versions
    from fxmorph.triage.folder.releases import bisect_releases

    finding, shown = bisect_releases(settings, id, pythons, versions(), print_line, every)
    print_line(change_in_words(shown))
    if str(finding.lifetime):
        print_line(f"{finding.id}: {finding.lifetime}")
    return Exit.OK if any(word in (STILL_THERE, GONE) for _, word in shown) else Exit.NOTHING_RAN
