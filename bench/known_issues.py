"""How well findings are matched to public issues: ``python bench/known_issues.py [TABLE] [--no-run]``.

A line of the table (``known-issue-pairs.jsonl`` beside this) is JSON: the ``issue`` (0: none), others that are the
``same`` defect, and the ``finding`` with ``operations``, ``kinds``, ``stage``, ``unit``, ``torch``, ``device`` and
``program``, which is not the issue's own.  Printed are the precision of ``known``, and how often the issue is the
first candidate and among all candidates.  Findings that have ``inputs`` are run under the installed torch, in fresh
processes, where an entry of the table of known issues is worth a run; ``--no-run`` leaves that out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fxmorph.core.finding_parts import Reduced, Repro
from fxmorph.core.versions import version_of
from fxmorph.model import Finding, Kind
from fxmorph.triage.blame.culprit import bug_class
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.known.exact_match import exact_match
from fxmorph.triage.known.known_issues import load_known
from fxmorph.triage.known.likeness import MOST, likely_issues
from fxmorph.triage.known.public_index import load_index

TABLE = Path(__file__).with_name("known-issue-pairs.jsonl")


def finding_of(body: dict[str, Any], name: str) -> Finding:
    kinds, stage, unit = tuple(map(Kind, body["kinds"])), body["stage"], body["unit"]
    program = f"import torch\n\n\ndef make_inputs():\n    return [{body['inputs']}]\n\n\n" if "inputs" in body else ""
    program += body["program"]
    config = {"backend": "inductor", "device": body.get("device", "cpu")}
    if "requires_grad" not in program and "backward" not in program:
        config["no_grad"] = True
    return Finding(
        name, "c", "s", "", kinds, bug_class(kinds, stage, unit), stage, unit, "seed-miscompiled", name, "", program,
        repro=Repro(config), reduced=Reduced(operations=tuple(body["operations"])),
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
    pairs = [json.loads(line) for line in table.read_text().splitlines() if line.strip()]
    positive = [pair for pair in pairs if pair["issue"]]
    indexed = {issue.number for issue in load_index().issues}
    first = among = 0
    for pair in positive:
        found = likely_issues(finding_of(pair["finding"], "pair"), torch_version=pair["finding"]["torch"])
        ids = [int(one.id.rpartition("#")[2]) for one in found]
        right = _right(pair)
        first += not right.isdisjoint(ids[:1])
        among += not right.isdisjoint(ids)
        if right.isdisjoint(ids):
            where = " (not in the index)" if right.isdisjoint(indexed) else ""
            print(f"missed {pair['issue']}{where}: {', '.join(pair['finding']['operations'])}: {ids}")
    listed = sum(not _right(pair).isdisjoint(indexed) for pair in positive)
    print(f"{len(pairs)} pairs, {len(positive)} of an issue, {listed} of one of the {len(indexed)} in the index")
    print(f"candidates: recall at 1 {_share(first, len(positive))}, at {MOST} {_share(among, len(positive))};")
    print(f"  of issues in the index at 1 {_share(first, listed)}, at {MOST} {_share(among, listed)}")
    if runs:
        _run(pairs)


def _right(pair: dict[str, Any]) -> set[int]:
    """Issues that are the finding's."""
    return {pair["issue"], *pair.get("same", ())}


def _run(pairs: list[dict[str, Any]]) -> None:
    """Try findings that show under the installed torch with mends."""
    here = version_of("torch").split("+")[0]
    tried = claimed = right = 0
    with TemporaryDirectory(prefix="fxmorph-known-issues-") as place:
        for number, pair in enumerate(pairs, 1):
            finding = finding_of(pair["finding"], f"pair{number}")
            if "inputs" not in pair["finding"] or not load_known().worth_a_run(finding, here):
                continue
            tried += 1
            known = known_issue(finding, Path(place, str(number)))
            if known:
                claimed += 1
                right += int(known.rpartition("#")[2]) in _right(pair)
                print(f"pair {number}: known as {known}, of {pair['issue'] or 'none'}")
    print(f"known: {tried} findings tried with mends, {claimed} known, rightly {_share(right, claimed)}")


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}" + (f" ({part / whole:.1%})" if whole else "")


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--no-run"]
    main(Path(given[0]) if given else TABLE, "--no-run" not in sys.argv)
