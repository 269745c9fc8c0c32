"""``fxmorph report``: the page of one or more state folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fxmorph.commands.columns import print_line
from fxmorph.commands.reporters import report_files
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import PAGE
from fxmorph.events import FindingMade


def write_report(settings: Settings, states: Sequence[str], out: str) -> Exit:
    """Merge the runs of ``states`` (of the settings' state folder where there are none) into ``out``."""
    from fxmorph.report.html import write_report as write

    folders = [Path(given) for given in states or [settings.state]]
    if out and not Path(out).absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: no folder {Path(out).parent}")
    file = Path(out) if out else folders[0] / PAGE if len(folders) == 1 else Path(PAGE)
    files = report_files(settings)
    written = write(folders, file)
    for reporter in files:
        for card in written.cards:
            reporter.handle(FindingMade(card.finding, str(card.folder), card.known))
        reporter.close()
    print_line(f"{len(written.runs)} runs, {written.cases} cases, {len(written.cards)} findings: {file}")
    return Exit.OK
