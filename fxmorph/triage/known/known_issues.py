"""The table of public issues that a finding can be shown to be: each has a mend of exactly that defect."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from fxmorph.model import Finding
from fxmorph.triage.known.operator_names import plain_names
from fxmorph.triage.known.program_operators import operators_of_finding


@dataclass(frozen=True)
class KnownIssue:
    """``id`` as in ``pytorch/pytorch#189518``; ``mend`` names one of ``fxmorph/torchapi/mends/``.

    The rest says only which findings are worth a run with the mend: they share one of ``kinds``, call one of
    ``operations`` (any where none is given), and are of ``stage`` where one is.  ``since`` is the first release that
    has the defect, ``fixed`` the first that has it no more; "" where that is not known, or none is.
    """

    id: str
    title: str
    mend: str
    kinds: tuple[str, ...]
    operations: tuple[str, ...] = ()
    stage: str = ""
    since: str = ""
    fixed: str = ""

    def worth_a_run(self, finding: Finding, torch_version: str) -> bool:
        """Whether the finding looks so; says nothing of whether it is."""
        if before(torch_version, self.since) or (self.stage and self.stage != finding.stage):
            return False
        if not set(self.kinds) & set(finding.kinds):
            return False
        return not self.operations or bool(plain_names(self.operations) & operators_of_finding(finding))

    def is_fixed(self, torch_version: str) -> bool:
        """Whether this release has the fix."""
        return bool(self.fixed) and not before(torch_version, self.fixed)


def before(torch_version: str, release: str) -> bool:
    """Whether the version is of an earlier release; none is before ""."""
    return bool(release) and _numbers(torch_version) < _numbers(release)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


@dataclass(frozen=True)
class Known:
    """The table of known issues."""

    issues: tuple[KnownIssue, ...]

    def worth_a_run(self, finding: Finding, torch_version: str) -> tuple[KnownIssue, ...]:
        """Those that the finding could be, those about most of its operations first."""
        found = [issue for issue in self.issues if issue.worth_a_run(finding, torch_version)]
        called = operators_of_finding(finding)
        return tuple(sorted(found, key=lambda issue: -len(plain_names(issue.operations) & called)))


@cache
def load_known() -> Known:
    """The shipped table, ``known-issues.toml`` beside this file."""
    text = resources.files("fxmorph.triage.known").joinpath("known-issues.toml").read_text(encoding="utf-8")
    return Known(tuple(_issue(entry) for entry in tomllib.loads(text).get("issue", [])))


def _issue(entry: dict[str, Any]) -> KnownIssue:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return KnownIssue(**values)
