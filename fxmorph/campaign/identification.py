"""Which findings are known: by the public issue that they were shown to be, or by the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from fxmorph.core.finding_parts import Match
from fxmorph.model import Finding, digest

#: What a finding is known as that the baseline lists.
BASELINE = "baseline"
#: Of a known finding so many others that look like it are tried whether they are it, as they were found.
TRIED_ALIKE = 3


class Identification:
    """``baseline`` are fingerprints that do not count."""

    def __init__(self, baseline: frozenset[str]) -> None:
        self._baseline = baseline
        self._tried_alike: Counter[str] = Counter()

    def listed(self, print_: str) -> bool:
        """Whether the baseline has the fingerprint."""
        return print_ in self._baseline

    def again(self, finding: Finding) -> Finding:
        """A stored finding under this baseline, which may be another than the one that it was stored under."""
        if finding.known not in ("", BASELINE):
            return finding
        return replace(finding, known=BASELINE if self.listed(finding.fingerprint) else "")

    def named(self, finding: Finding, match: Match) -> Finding:
        """The finding with what it is known as, and with what else the match says."""
        known, by, said = "", "", match.untried
        if match.issue and not match.fixed:
            known, by = match.issue, match.how
        elif self.listed(finding.fingerprint):
            known = BASELINE
        if match.fixed:
            said = (f"a regression: {match.how}, which torch {match.fixed} fixed ({match.issue})",)
        return replace(finding, known=known, known_by=by, evidence=(*finding.evidence, *said))

    def apart(
        self, finding: Finding, earlier: Finding, as_found: Callable[[Finding], Finding | None]
    ) -> Finding | None:
        """One like a finding that was shown to be a public issue, with a key of its own: its cause may be another.

        None where it is taken for the same: of findings that were not reduced a few are looked at, ``as_found``.
        """
        if not earlier.known or earlier.known == BASELINE:
            return None
        if not finding.program:
            self._tried_alike[earlier.fingerprint] += 1
            found = as_found(finding)
            if found is None or self._tried_alike[earlier.fingerprint] > TRIED_ALIKE:
                return None
            finding = found
        key = digest([earlier.fingerprint, finding.program], 12)
        return replace(finding, id=key, fingerprint=key)
