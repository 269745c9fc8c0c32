"""What is said of public issues: the one that a finding is, and those that it may be."""

from __future__ import annotations

from fxmorph.model import Finding


def known_as(finding: Finding) -> str:
    """What it is known as, and what showed that; "" where it is not known."""
    return finding.known + (f"; {finding.known_by}" if finding.known_by else "")


def likely_lines(finding: Finding) -> list[str]:
    """One for each public issue that it may be; of one that is known nothing is likely."""
    if finding.known:
        return []
    return [f"likely known: {one.id} ({one.score:.2f}) {one.title} [{one.why}]" for one in finding.likely]


def related_line(finding: Finding) -> list[str]:
    """One line for a draft, where there is anything to say."""
    numbers = ", ".join(f"#{one.id.rpartition('#')[2]}" for one in finding.likely)
    return [f"Possibly related: {numbers}"] if numbers and not finding.known else []
