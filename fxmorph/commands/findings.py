"""``fxmorph findings`` and ``fxmorph show``: what is stored."""

from __future__ import annotations

import json
from pathlib import Path

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import Store
from fxmorph.core.united import Placed, united
from fxmorph.events import FindingMade
from fxmorph.report.finding_row import HEADS, finding_row
from fxmorph.triage.folder.public_threads import known_as, likely_lines


def list_findings(settings: Settings, duplicates: bool) -> Exit:
    """Print the stored findings of all runs, each once, as event lines or in a table."""
    found: dict[str, Placed] = {}
    with united([settings.state_dir]) as runs:
        for _, run in runs.runs:
            found |= {placed.finding.id: placed for placed in runs.findings(run.id)}
    listed = [placed for placed in found.values() if duplicates or not placed.duplicate_of]
    if settings.json:
        for placed in listed:
            finding, folder = placed.finding, "" if placed.duplicate_of else str(placed.folder)
            made = FindingMade(finding, folder, finding.known, placed.duplicate_of)
            print_line(json.dumps(made.to_json(), ensure_ascii=False))
    elif listed:
        rows = []
        for finding in (placed.finding for placed in listed):
            *cells, seed = finding_row(finding)
            rows.append((*cells, "yes" if finding.confirmed else "no", finding.known, seed))
        print_columns((*HEADS[:-1], "confirmed", "known", HEADS[-1]), rows)
    else:
        print_line(f"no findings in {settings.state}")
    return Exit.OK


def show_finding(settings: Settings, prefix: str) -> Exit:
    """Print ``issue.md`` of the finding whose id starts so; raises ``StoreError`` where there is none."""
    with Store(settings.state_dir, write=False) as store:
        finding, folder = store.finding(prefix)
        header = store.last_run()
    written = Path(folder) / "issue.md"
    if written.is_file():
        text = written.read_text(encoding="utf-8")
    else:
        from fxmorph.triage.folder.issue import issue_text

        text = issue_text(finding, (header[1] if header else {}).get("versions", {}), finding.ladder)
    shows = [str(finding.lifetime)] if str(finding.lifetime) else []
    known = [f"known: {known_as(finding)}"] if finding.known else []
    print_line("\n".join([text.rstrip("\n"), *shows, *known, *likely_lines(finding)]))
    return Exit.OK
