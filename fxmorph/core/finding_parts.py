"""What a finding holds besides what everybody asks of it: how to show it again, how it came about, what is to blame.

In JSON the fields of all parts lie side by side under ``extra``.  A field is None where the finding does not say,
and is left out there: findings of a unit alone say less than those of programs, and those of earlier releases less
than today's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from fxmorph.core.lifetime import Lifetime, lifetime
from fxmorph.core.units import Stage

#: Of each call that says something its name and which calls before it it depends on.
Skeleton = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Repro:
    """What ``repro.py`` is written from besides the program (``fxmorph/triage/folder/repro.py`` says of what).

    ``config`` is how it is compiled and run, ``check`` what may differ (``rtol``, ``atol``, ``exact``); ``random``:
    the program may draw random numbers.
    """

    config: dict[str, Any] | None = None
    check: dict[str, Any] | None = None
    random: bool | None = None

    def with_config(self, **settings: Any) -> Repro:
        """The same with some settings changed or added."""
        return replace(self, config={**(self.config or {}), **settings})


@dataclass(frozen=True)
class Draw:
    """How the campaign came to the case; ``original_recipe`` is the one before any was left out."""

    campaign_seed: int | None = None
    number: int | None = None
    input_seed: int | None = None
    original_recipe: str | None = None


@dataclass(frozen=True)
class UnitCase:
    """A unit of Inductor alone on a graph, for findings of the pass ``rung``.

    ``graph`` is the graph's hash, ``part`` the part of the program that it is of; ``values`` the plan of the values
    that show it; ``change`` what made a near miss of a derived graph, ``sort`` the sort of change; ``units`` how
    often each unit showed the same; ``operations`` what the graph calls.
    """

    rung: str | None = None
    graph: str | None = None
    part: str | None = None
    values: str | None = None
    change: str | None = None
    sort: str | None = None
    units: dict[str, int] | None = None
    operations: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Reduced:
    """What a reduction came to.

    ``nodes`` are left after ``tests`` of candidates, at the rung ``reduced_at``; ``operations`` and ``skeleton`` are
    those of the reduced graph, ``signature`` is that of the exception.  ``finished``: it went as far as it goes.
    """

    nodes: int | None = None
    tests: int | None = None
    operations: tuple[str, ...] | None = None
    skeleton: Skeleton | None = None
    signature: str | None = None
    reduced_at: str | None = None
    finished: bool | None = None


@dataclass(frozen=True)
class Blame:
    """``unit`` under PyTorch's own name, "" where only the stage is known, or nothing is (None).

    ``confirmed``: with the unit switched off the finding is gone and nothing else goes wrong.
    ``evidence`` says what was seen, ``redo`` what to type; one line each.  ``off`` are the units that were
    switched off for that, where units were.  ``functions`` of torch, by their full names, run with the unit and not
    without it, the most telling ones first.
    """

    stage: Stage | None
    unit: str
    confirmed: bool
    evidence: tuple[str, ...] = ()
    redo: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """The public ``issue`` that a finding was shown to be, and ``how``; ``fixed`` by this release: it is back then.

    ``untried`` are mends that do not fit this torch and so could not show anything, with the reason.
    """

    issue: str = ""
    how: str = ""
    fixed: str = ""
    untried: tuple[str, ...] = ()


@dataclass(frozen=True)
class Likely:
    """A public issue that a finding may be: ``score`` in [0, 1], ``why`` in a few words.  It decides nothing."""

    id: str
    title: str
    score: float
    why: str


#: Where nothing is blamed.
NOBODY = Blame(None, "", False)


@dataclass(frozen=True)
class Draft:
    """What a report has besides the finding, made in fresh processes once the finding was confirmed.

    ``snippet`` is the shortest script that was seen to show it in the kind ``shown``, "" where none was; ``printed``
    is what it printed, ``eager`` and ``compiled`` are what it printed of each side.  ``kernels`` is generated code,
    where that is accused; ``environment`` what ``torch.utils.collect_env`` says.  ``traceback`` is that of the compiled
    side, where that raises.  ``contrast`` is a sentence on when it is not seen,
    ``gone_with`` are lines with which the finding's script was seen to exit with 0.
    """

    snippet: str = ""
    printed: str = ""
    shown: str = ""
    eager: str = ""
    compiled: str = ""
    kernels: str = ""
    environment: str = ""
    traceback: str = ""
    contrast: str = ""
    gone_with: str = ""


#: Parts of a finding by the field that holds them, in the order of their fields under ``extra``.
_SIDE_BY_SIDE = {"unit_case": UnitCase, "repro": Repro, "draw": Draw, "reduced": Reduced}
#: Fields that have a name of their own there.
_NAMED = ("blame", "exhibit", "releases", "known_by", "likely", "draft")
#: What a field holds that says nothing.
_UNSAID: tuple[Any, ...] = (None, "", [])


def gathered(body: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a finding's fields with its parts under ``extra``."""
    parts = {name: body.pop(name) for name in (*_SIDE_BY_SIDE, *_NAMED)}
    confirmed = body.pop("confirmed")
    said = [item for name in _SIDE_BY_SIDE for item in (parts[name] or {}).items()]
    extra = {key: value for key, value in said if value is not None}
    # Of a case it is said too that nothing is blamed.
    extra |= {n: parts[n] for n in _NAMED if parts[n] not in _UNSAID or (n == "blame" and "number" in extra)}
    extra |= {key: value for key, value in vars(lifetime(parts["releases"] or ())).items() if value}
    return {**body, "extra": extra, "confirmed": confirmed}


def taken_apart(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reverse; raises ``ValueError`` naming what no part has."""
    if "extra" not in body:
        return body
    if not isinstance(body["extra"], Mapping):
        raise ValueError(f"extra: want an object, got {body['extra']!r}")
    extra = dict(body["extra"])
    parts: dict[str, Any] = {name: extra.pop(name) for name in _NAMED if name in extra}
    for of_lifetime in fields(Lifetime):  # it follows from the releases
        extra.pop(of_lifetime.name, None)
    for name, cls in _SIDE_BY_SIDE.items():
        if cls is UnitCase and "rung" not in extra:
            continue  # operations are the reduced graph's
        parts[name] = {f.name: extra.pop(f.name) for f in fields(cls) if f.name in extra}
    if extra:
        raise ValueError(f"extra: unknown field {min(extra)!r}")
    return {**{name: value for name, value in body.items() if name != "extra"}, **parts}
