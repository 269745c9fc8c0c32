"""``fxmorph findings`` and ``fxmorph show``: what is stored."""

from __future__ import annotations

import json
from pathlib import Path

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import Store
from fxmorph.events import FindingMade
from fxmorph.triage.folder.public_threads import known_as, likely_lines


def list_findings(settings: Settings, duplicates: bool) -> Exit:
    """Print the stored findings, as event lines or in a table."""
    with Store(settings.state_dir, write=False) as store:
        found = [(finding, *store.place(finding.id)) for finding in store.findings(duplicates=duplicates)]
    if settings.json:
        for finding, folder, duplicate_of in found:
            made = FindingMade(finding, folder, finding.known, duplicate_of)
            print_line(json.dumps(made.to_json(), ensure_ascii=False))
    elif found:
        rows = [
            (
                f.id, ",".join(f.kinds), f.stage, f.unit, "yes" if f.confirmed else "no", f.known, f.seed,
                f.recipe or "(as it is)",
            )
            for f, _, _ in found
        ]  # fmt: skip
        print_columns(("id", "kinds", "stage", "unit", "confirmed", "known", "seed", "recipe"), rows)
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
