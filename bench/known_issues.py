"""How well findings are matched to public issues: ``python bench/known_issues.py TABLE [--no-run]``.

A line of the table is JSON: the ``issue`` (0: none), and the ``finding`` with ``operations``, ``kinds``, ``stage``,
``unit``, ``torch``, ``device`` and ``program``.  Printed are the precision of ``known``, and how often the issue is the
first candidate and among all candidates.  Findings made with the torch that is installed are run, in fresh processes,
where an entry of the table of known issues is worth a run; ``--no-run`` leaves that out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fxmorph.core.finding_parts import Likely, Reduced, Repro
from fxmorph.core.versions import version_of
from fxmorph.model import Finding, Kind
from fxmorph.triage.blame.culprit import bug_class
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.known.exact_match import exact_match
from fxmorph.triage.known.known_issues import load_known
from fxmorph.triage.known.likeness import likely_issues
from fxmorph.triage.known.public_index import load_index


def finding_of(body: dict[str, Any], name: str) -> Finding:
    kinds = tuple(Kind(word) for word in body["kinds"])
    program = body.get("program", "")
    meta = program.partition("META")[2].partition("\n")[0]
    config = {"backend": "inductor", "device": body.get("device", "cpu")}
    if "no_grad" in meta or ("requires_grad" not in program and "backward" not in program):
        config["no_grad"] = True
    return Finding(
        name, "c", "s", "", kinds, bug_class(kinds, body["stage"], body["unit"]), body["stage"], body["unit"],
        "seed-miscompiled", name, "", program, repro=Repro(config), reduced=Reduced(operations=tuple(body["operations"])),
    )  # fmt: skip


def known_issue(finding: Finding, folder: Path) -> str:
    """The issue that it is shown to be, run in a folder of its own."""
    folder.mkdir()
    try:
        (folder / "repro.py").write_text(repro_text(finding))
    except ValueError:
        return ""
    return exact_match(finding, folder, folder / "cache", shown=False).issue


def main(table: Path, runs: bool) -> None:
    lines = [json.loads(line) for line in table.read_text().splitlines() if line.strip()]
    indexed = {issue.number for issue in load_index().issues}
    here = version_of("torch").split("+")[0]
    first = among = positive = listed = claimed = right = tried = 0
    with TemporaryDirectory(prefix="fxmorph-known-issues-") as place:
        for number, line in enumerate(lines):
            body, issue = line["finding"], line["issue"]
            finding = finding_of(body, f"pair{number}")
            likely: tuple[Likely, ...] = likely_issues(finding, torch_version=body["torch"])
            ids = [int(one.id.rpartition("#")[2]) for one in likely]
            if issue:
                positive += 1
                listed += issue in indexed
                first += ids[:1] == [issue]
                among += issue in ids
                if issue not in ids:
                    print(f"missed {issue}{'' if issue in indexed else ' (not in the index)'}: {body['operations']}: {ids}")
            if not runs or body["torch"] != here or not load_known().worth_a_run(finding, here):
                continue
            tried += 1
            known = known_issue(finding, Path(place, str(number)))
            if known:
                claimed += 1
                right += known.endswith(f"#{issue}")
                print(f"line {number + 1}: known as {known}, {'right' if known.endswith(f'#{issue}') else f'WRONG: {issue}'}")
    print(f"{len(lines)} lines, {positive} with an issue, {listed} of these issues in the index of {len(indexed)}")
    print(f"candidates: recall at 1 {first}/{positive} ({_share(first, positive)}), at 5 {among}/{positive} ({_share(among, positive)})")
    if runs:
        print(f"known: {tried} findings tried with mends, {claimed} known, {right} rightly ({_share(right, claimed)})")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--no-run" not in sys.argv)
