"""Findings as they were seen: a case that differs is one at once, whatever time is left to make more of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from fxmorph.campaign.ledger import Ledger
from fxmorph.model import Finding, digest


class SeenFindings:
    """By case; each lies in ``STATE/seen/ID`` and in the store until another stands for it, in all runs of a state.

    ``stored`` are those that an earlier part of the run, or the run that is reduced, left.
    """

    def __init__(self, state: Path, ledger: Ledger, stored: Iterable[Finding]) -> None:
        self._state, self._ledger = state, ledger
        self._by_case = {f.case_id: f for f in stored}

    def __contains__(self, case_id: str) -> bool:
        return case_id in self._by_case

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._by_case.values())

    def __len__(self) -> int:
        return len(self._by_case)

    def place(self, finding: Finding) -> Path:
        """Where one of them lies."""
        return self._state / "seen" / finding.id

    def add(self, finding: Finding) -> None:
        """Store what was found of a case as it was found."""
        finding = replace(finding, id=digest(["seen", finding.case_id], 12), confirmed=False)
        folder = self.place(finding)
        try:
            self._ledger.write_folder(folder, finding)
        except ValueError:  # the seed's source is no program of the form that scripts are made of
            finding = replace(finding, program="")
            self._ledger.write_folder(folder, finding)
        with self._ledger.activity("store"):
            self._ledger.add_finding(finding, folder)
        self._by_case[finding.case_id] = finding

    def give_way(self, finding: Finding, folder: Path | None, duplicate_of: str = "") -> None:
        """Store what stands from now on for what was seen of the finding's case; ``folder`` is None for a duplicate."""
        seen = self._by_case.pop(finding.case_id, None)
        with self._ledger.activity("store"):
            self._ledger.add_finding(finding, folder, duplicate_of, seen.id if seen is not None else "")
        if seen is not None:
            shutil.rmtree(self.place(seen), ignore_errors=True)

    def stays(self, case_id: str, why: str) -> None:
        """Nothing more is made of the case: it is told as it was seen."""
        self._ledger.counts["unconfirmed"] += 1
        seen = self._by_case.get(case_id)
        if seen is not None:
            seen = self._by_case[case_id] = replace(seen, evidence=(*seen.evidence, why))
            self._ledger.add_finding(seen, self.place(seen))

    def unreduced(self, finding: Finding) -> Finding | None:
        """The finding with the program of its case as it was found; None where it has that one already, or none is."""
        seen = self._by_case.get(finding.case_id)
        if seen is None or seen.program in ("", finding.program):
            return None
        return replace(
            seen, id=seen.fingerprint, unit=finding.unit, bug_class=finding.bug_class, confirmed=True,
            blame=finding.blame, units=finding.units, exhibit=finding.exhibit or seen.exhibit,
        )  # fmt: skip
