"""What is said of public issues: the one that a finding is, and those that it may be."""

from __future__ import annotations

import re

from fxmorph.model import Finding


def known_as(finding: Finding) -> str:
    """What it is known as, and what showed that; "" where it is not known."""
    return finding.known + (f"; {finding.known_by}" if finding.known_by else "")


#: Of tables of findings and issues: from this score on about every second first candidate is the right one.
LIKELY = 0.60
#: An origin of a program that is a public issue.
_ISSUE = re.compile(r"pytorch/pytorch#(\d+)")


def likely_lines(finding: Finding, most: int | None = None) -> list[str]:
    """One for each public issue that it may be, the likeliest ``most``; of one that is known nothing is likely."""
    if finding.known:
        return []
    return [
        f"{'likely' if one.score >= LIKELY else 'perhaps'} known: {one.id} ({one.score:.2f}) {one.title} [{one.why}]"
        for one in finding.likely[:most]
    ]


def related_line(finding: Finding) -> list[str]:
    """One line for a draft, where its program is written after an issue or something is likely."""
    own = _ISSUE.fullmatch(finding.origin)
    of_seed = f"#{own[1]}" if own else ""
    numbers = [f"#{one.id.rpartition('#')[2]}" for one in finding.likely if one.score >= LIKELY]
    after = [f"{of_seed} (the program is written after it)"] if of_seed else []
    said = ", ".join([*after, *(number for number in numbers if number != of_seed)])
    return [f"Possibly related: {said}"] if said and not finding.known else []
