"""Publicly known issues: findings that match one are shown as known, never dropped."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from fxmorph.model import Finding


@dataclass(frozen=True)
class KnownIssue:
    """``id`` as in ``pytorch/pytorch#189518``; a finding matches where all that is given agrees.

    ``stage`` must be equal, ``unit`` a prefix; ``operations`` must all be in the reduced graph and none of
    ``without``, and with ``writes`` one of those there writes to a tensor; ``kinds`` must share one with the
    finding's; ``torch`` lists releases.  ``sort`` is the sort of change that a pattern overlooks
    (``fxmorph.inductor.derive.near_misses.sort_of``), of findings of the ``pass`` rung.
    """

    id: str
    title: str
    stage: str = ""
    unit: str = ""
    operations: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    fingerprint: str = ""
    sort: str = ""
    writes: bool = False


@dataclass(frozen=True)
class Known:
    """The table of known issues."""

    issues: tuple[KnownIssue, ...]

    def match(self, finding: Finding, torch_version: str) -> str:
        """Id of the first issue that the finding matches, or ""."""
        for issue in self.issues:
            if issue.torch and ".".join(torch_version.split(".")[:2]) not in issue.torch:
                continue
            if issue.fingerprint:
                if issue.fingerprint == finding.fingerprint:
                    return issue.id
                continue
            operations = set(finding.operations)
            if issue.stage and issue.stage != finding.stage:
                continue
            if issue.unit and not finding.unit.startswith(issue.unit):
                continue
            if issue.writes and not any(name.endswith("_") for name in operations):
                continue
            if issue.sort and (finding.unit_case is None or issue.sort != finding.unit_case.sort):
                continue
            if issue.kinds and not set(issue.kinds) & set(finding.kinds):
                continue
            if set(issue.operations) <= operations and not set(issue.without) & operations:
                return issue.id
        return ""


def load_known() -> Known:
    """The shipped table, ``known-issues.toml`` beside this file."""
    text = resources.files("fxmorph.triage").joinpath("known-issues.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text).get("issue", [])
    return Known(tuple(_issue(entry) for entry in entries))


def _issue(entry: dict[str, Any]) -> KnownIssue:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return KnownIssue(**values)
