"""Which public issue a finding is: the one whose mend makes its ``repro.py`` agree."""

from __future__ import annotations

from pathlib import Path

from fxmorph.core.exits import ReproExit
from fxmorph.core.finding_parts import Match
from fxmorph.core.scripts import Scripts
from fxmorph.core.versions import version_of
from fxmorph.model import Finding
from fxmorph.torchapi.mends.mend_catalogue import MENDS
from fxmorph.triage.folder.repro_run import run_repro
from fxmorph.triage.known.known_issues import Known, KnownIssue, load_known

#: Runs with mends of one finding.
MOST_RUNS = 5


def exact_match(
    finding: Finding, folder: Path, cache: Path, shown: bool, known: Known | None = None, torch_version: str = "",
    scripts: Scripts | None = None,
) -> Match:  # fmt: skip
    """Run ``folder/repro.py`` in fresh processes, each with a mend of an issue that the finding could be.

    ``shown``: a fresh process without any showed the difference already.  ``cache`` is Inductor's folder.
    ``scripts``: as for ``run_repro``.
    """
    torch_version = torch_version or version_of("torch")
    issues = (known or load_known()).worth_a_run(finding, torch_version)[:MOST_RUNS]
    if not issues or not (folder / "repro.py").is_file():
        return Match()
    if not shown and run_repro(folder, cache, scripts=scripts)[0] != ReproExit.STILL_THERE:
        return Match()
    untried = []
    for issue in issues:
        code, said = run_repro(folder, cache, mend=issue.mend, scripts=scripts)
        if code == ReproExit.GONE:
            fixed = issue.fixed if issue.is_fixed(torch_version) else ""
            return Match(issue.id, _how(issue), fixed)
        if code == ReproExit.NO_MEND:
            untried.append(f"the mend of {issue.id} was not tried: {said}")
    return Match(untried=tuple(untried))


def _how(issue: KnownIssue) -> str:
    return f"gone with a local patch for #{issue.id.rpartition('#')[2]}: {MENDS[issue.mend].does}"
