"""``fxmorph bisect``: the first release of torch that shows a finding."""

from __future__ import annotations

from collections.abc import Sequence

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.lifetime import BREAKS, GONE, STILL_THERE, first_change


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


def change_in_words(shown: Sequence[tuple[str, str | None]]) -> str:
    """Where what releases, oldest first, show changes first."""
    change = first_change([word for _, word in shown])
    if change is None:
        tried = [(release, word) for release, word in shown if word in (STILL_THERE, GONE)]
        if not tried:
            return "the repro runs under none of them"
        return f"{tried[0][1]} under all that were tried: torch {', '.join(release for release, _ in tried)}"
    (before, word), (after, _) = (shown[place] for place in change)
    broken = [release for release, said in shown[change[0] + 1 : change[1]] if said == BREAKS]
    between = f" (the repro breaks under torch {', '.join(broken)})" if broken else ""
    names = ("last good", "first bad") if word == GONE else ("last bad", "first good")
    return f"{names[0]} torch {before}, {names[1]} torch {after}{between}"
