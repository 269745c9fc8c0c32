"""What workers are asked to do, and what they answer; imported where no compiler is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fxmorph.core.finding_parts import Blame
from fxmorph.model import Case, CaseResult, Finding
from fxmorph.triage.conclusion import Investigated


@dataclass(frozen=True)
class Judge:
    """Job: judge a case; answers a :class:`Judged`.

    After ``enough`` CPU seconds it is judged on no other set of values.
    """

    index: int
    case: Case
    enough: float = math.inf


@dataclass(frozen=True)
class ListOperators:
    """Job: which operators torch's own tests have; answers (``ListedOperator`` s, seconds)."""

    index: int = 0


@dataclass(frozen=True)
class Judged:
    """What a judgement says, and of a case that differs the program that shows it, as it was found.

    ``found`` is None where nothing differs, or where no text holds the program.
    """

    result: CaseResult
    found: Investigated | None = None


class Manner(StrEnum):
    """How a found case is investigated; the next where the one before came to nothing."""

    HERE = "here"  #: in the worker
    APART = "apart"  #: what is compiled runs in processes of its own; the units' graphs are not drawn
    BLAMED = "blamed"  #: and not reduced, for which there is no time
    AS_FOUND = "as-found"  #: neither blamed nor reduced


@dataclass(frozen=True)
class Investigate:
    """Job: blame and reduce a found case within ``seconds`` of CPU; answers an ``Investigated``.

    A case of one of ``groups`` is blamed alone; ``blame`` is what an earlier worker found out of it before it was lost.
    """

    index: int
    case: Case
    result: CaseResult
    seconds: float
    groups: tuple[str, ...] = ()
    manner: Manner = Manner.HERE
    blame: Blame | None = None


@dataclass(frozen=True)
class ListUnits:
    """Job: units of Inductor that names, globs, stages or kinds choose; answers (a ``Chosen``, seconds)."""

    patterns: tuple[str, ...]
    index: int = 0


@dataclass(frozen=True)
class KeepProgram:
    """Job: the seed file of a case that was the first to make ``first``, units, fire; answers (its text, seconds)."""

    index: int
    case: Case
    result: CaseResult
    first: tuple[str, ...]


@dataclass(frozen=True)
class JudgePasses:
    """Job: units of Inductor by name on the graphs of ``source``; answers (a ``PassesJudged``, seconds).

    ``prove``: what does not differ is proved where that can be done.
    """

    index: int
    source: Any
    units: tuple[str, ...]
    campaign_seed: int
    folder: str
    skip: tuple[str, ...] = ()
    prove: bool = True


@dataclass(frozen=True)
class Derive:
    """Job: graphs that pattern entries fire on, with near misses if ``near``; answers (``Derivation`` s, seconds)."""

    index: int
    entries: tuple[str, ...]
    seed: int
    near: bool


@dataclass(frozen=True)
class Confirm:
    """Job: run the repro in ``folder`` in ``times`` fresh processes; answers (a ``Confirmation``, seconds).

    ``like`` is the fingerprint of a known finding that it looks like, or "".
    """

    index: int
    case: Case
    finding: Finding
    folder: str
    times: int = 1
    like: str = ""


@dataclass(frozen=True)
class Identify:
    """Job: run the repro of a unit's finding in ``folder``, and find out which public issue it is.

    Answers (a ``Confirmation``, seconds).
    """

    finding: Finding
    folder: str


@dataclass(frozen=True)
class WriteUp:
    """Job: make what the report of the finding in ``folder`` needs; answers (a ``Draft``, seconds)."""

    index: int
    case: Case
    finding: Finding
    folder: str


def label_of(job: Any) -> str:
    """What a job tries, for people; "" where it is about no program."""
    if isinstance(job, JudgePasses):
        return job.source.label
    case: Case | None = getattr(job, "case", None)
    return case.seed.label if case is not None else ""
