"""What is known of the state of public issues, without asking anybody: as lists had it on their day.

Two lists: the one of issues that comes with fxmorph, and one of yours (``--issues``), which goes first.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from fxmorph.core.config import ConfigError
from fxmorph.model import Finding
from fxmorph.triage.known.known_issues import load_known
from fxmorph.triage.known.public_index import AS_OF, load_index

#: Words for a state in a list of yours; ``fixed`` may name a release beside any.
STATES = ("open", "closed")
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")
_KEYS = {"id": str, "title": str, "state": str, "fixed": str, "checked": date, "findings": list}


@dataclass(frozen=True)
class PublicState:
    """An issue, as ``pytorch/pytorch#189518``, and its state on the day ``checked``.

    ``state`` is "" where only ``fixed``, the first release with the fix, is known, or not even that (""); ``findings``
    are beginnings of the ids of findings that it is about.
    """

    id: str
    title: str = ""
    state: str = ""
    fixed: str = ""
    checked: str = ""
    findings: tuple[str, ...] = ()

    @property
    def link(self) -> str:
        repository, number = _parts(self.id)
        return f"https://github.com/{repository}/issues/{number}"

    def __str__(self) -> str:
        said = [self.state, f"fixed in torch {self.fixed}" if self.fixed else ""]
        return ", ".join(filter(None, said)) or "no fix known"


@dataclass(frozen=True)
class PublicStates:
    """The lists; ``own`` by issue."""

    own: Mapping[str, PublicState] = field(default_factory=dict)

    def of_finding(self, finding: Finding) -> PublicState | None:
        """The public issue that a finding is; None where it is none, as far as is known."""
        named = (state for state in self.own.values() if any(map(finding.id.startswith, state.findings)))
        issue = next((state.id for state in named), finding.known)
        return self.of_issue(issue) if _ISSUE.fullmatch(issue) else None

    def of_issue(self, issue: str) -> PublicState:
        """What the lists say of an issue."""
        shipped = _shipped(issue)
        own = self.own.get(issue)
        if own is None:
            return shipped
        fixed = own.fixed or shipped.fixed
        return PublicState(issue, own.title or shipped.title, own.state, fixed, own.checked, own.findings)


def _shipped(issue: str) -> PublicState:
    for known in load_known().issues:
        if known.id == issue:
            return PublicState(issue, known.title, fixed=known.fixed, checked=AS_OF)
    repository, number = _parts(issue)
    for public in load_index().issues if repository == "pytorch/pytorch" else ():
        if public.number == int(number):
            return PublicState(issue, public.title, fixed=public.fixed, checked=AS_OF)
    return PublicState(issue)


def _parts(issue: str) -> tuple[str, str]:
    found = _ISSUE.fullmatch(issue)
    assert found is not None, issue
    return found[1], found[2]


def read_states(file: Path) -> PublicStates:
    """A list of yours; raises :class:`ConfigError` naming the file and what is wrong in it."""
    try:
        text = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    entries = text.pop("issue", [])
    if text or not isinstance(entries, list):
        raise ConfigError(f"{file}: want tables, as [[issue]], and nothing else")
    return PublicStates({state.id: state for state in _states(file, entries)})


def _states(file: Path, entries: Iterable[Any]) -> Iterable[PublicState]:
    for number, entry in enumerate(entries, 1):
        where = f"{file}: issue {number}"
        if not isinstance(entry, dict):
            raise ConfigError(f"{where}: want a table, as [[issue]]")
        for key, value in entry.items():
            if key not in _KEYS:
                raise ConfigError(f"{where}: unknown key {key!r}, want one of {', '.join(_KEYS)}")
            if not isinstance(value, _KEYS[key]):
                raise ConfigError(f"{where}: {key}: want {_KEYS[key].__name__}, got {value!r}")
        if not _ISSUE.fullmatch(entry.get("id", "")):
            raise ConfigError(f"{where}: want id, as pytorch/pytorch#189518, got {entry.get('id')!r}")
        if entry.get("state", "") not in ("", *STATES):
            raise ConfigError(f"{where}: state: want {' or '.join(STATES)}, got {entry['state']!r}")
        findings = entry.get("findings", [])
        if not all(isinstance(id, str) and id for id in findings):
            raise ConfigError(f"{where}: findings: want ids of findings, got {findings!r}")
        yield PublicState(**{**entry, "checked": str(entry.get("checked", "")), "findings": tuple(findings)})
