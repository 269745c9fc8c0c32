"""What is to be said of a unit, or of a user's pass, on one graph: text and numbers, which processes hand on.

Imported by parents without torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fxmorph.core.records import SPARSE
from fxmorph.model import Kind, Level, Status, VerdictCode

#: How entries that are registered several times for one pattern differ in name.
_VARIANT = re.compile(r"(_bs1|_half|_inference|_training)*(#\d+)?$")
#: How entries of one name are numbered, and what follows.
_NUMBERED = re.compile(r"(_\d+[^/]*|#\d+)$")


@dataclass(frozen=True)
class Pair:
    """A unit on a graph, and what was found of it where it ``fired``.

    ``unit`` is the unit of Inductor, or the name of the user's pass; ``source`` says what the graph was captured
    from, ``part`` is that of a :class:`~fxmorph.inductor.stages.StageGraph` ("" where there is no graph), ``graph``
    its :func:`~fxmorph.inductor.pair_check.graph_key`, ``matches`` how many matches of patterns there were.
    ``status``, ``kinds`` and ``reason`` judge the pair on values, those of ``plan``; ``outcome``, ``level``,
    ``method``, ``assumptions`` and ``unproved`` (its reason) are those of a
    :class:`~fxmorph.inductor.validation.Validation`, ``outcome`` "" where there was none.

    ``change`` is what made a near miss of a derived graph, ``nodes`` how many the graph has; seconds are of the CPU.
    Of findings of units: ``program`` is the path of the graph as a seed file, ``operations`` what it calls.  Of those
    of a user's pass: ``changes`` are the nodes that differ, ``inputs`` the values that show it, ``repro`` a script,
    "" where it would be large, and ``stage`` whose graph it was.  ``edges`` are the sorts of edge case that ``reason``
    tells of.  ``broken`` says which operator of another library is not what its schema or fake kernel says, and how.
    ``tidied``: all that a user's pass did was to remove dead code.  ``functions`` are those of torch that did the
    unit's work, the most telling ones first.
    """

    unit: str
    source: str
    part: str
    graph: str
    matches: int
    status: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    plan: str = ""
    outcome: str = ""
    level: Level = Level.UNKNOWN
    method: str = ""
    assumptions: tuple[str, ...] = ()
    unproved: str = ""
    counterexample: str = ""
    program: str = ""
    change: str = ""
    operations: tuple[str, ...] = ()
    seconds: float = 0.0
    proof_seconds: float = 0.0
    fired: bool = True
    nodes: int = 0
    changes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    repro: str = ""
    edges: tuple[VerdictCode, ...] = field(default=(), metadata=SPARSE)
    stage: str = field(default="", metadata=SPARSE)
    broken: str = field(default="", metadata=SPARSE)
    tidied: bool = field(default=False, metadata=SPARSE)
    functions: tuple[str, ...] = field(default=(), metadata=SPARSE)

    @property
    def sort(self) -> str:
        """What sort of change made a near miss; "" for a graph as it is."""
        from fxmorph.inductor.derive.near_misses import sort_of

        return sort_of(self.change) if self.change else ""

    @property
    def place(self) -> str:
        """Where the fault lies: the unit, or the patterns that are made like the one that does not see a change."""
        return place_of(self.unit, self.sort)


def place_of(unit: str, sort: str) -> str:
    """What a finding of a unit is about: entries like it where their patterns were changed, else those of its name."""
    return kin(unit) if sort else family(unit)


def kin(entry: str) -> str:
    """The entry's name without its number: patterns of one name are made alike, and have their check in common."""
    return _NUMBERED.sub("", entry, count=1)


def family(unit: str) -> str:
    """The unit's name without what tells apart entries that are registered for one pattern."""
    return _VARIANT.sub("", unit, count=1)
