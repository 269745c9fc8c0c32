"""The units of Inductor that have a name of their own: passes, pattern entries, decompositions, lowerings."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """A part of one compile, in the order in which a program goes through them."""

    DYNAMO = "dynamo"
    PRE_GRAD = "pre_grad"
    DECOMPOSITION = "decomposition"
    AOT = "aot"  #: the joint graph's tracing
    FUNCTIONALIZATION = "functionalization"
    RUNTIME_WRAPPERS = "runtime_wrappers"
    JOINT = "joint"
    PARTITIONER = "partitioner"
    FREEZING = "freezing"
    POST_GRAD = "post_grad"
    LOWERING = "lowering"
    SCHEDULER = "scheduler"
    CODEGEN = "codegen"


#: Stages that show in generated code alone: Inductor's graphs, run in eager, have nothing of them.
IN_CODE = frozenset({Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN})


class UnitKind(StrEnum):
    """What a unit is: a pass over a whole graph, one entry of a pattern pass, the meaning of one operator."""

    PASS = "pass"
    ENTRY = "entry"
    DECOMPOSITION = "decomposition"
    LOWERING = "lowering"


@dataclass(frozen=True)
class Unit:
    """One unit, under PyTorch's own name.

    ``name`` is unique: ``<stage>.<name>``, of a pattern entry ``<stage>.<pass list>[i]/<entry>``.  ``module``
    defines it; ``flag`` turns it on where it is not on by ``default``; ``device`` is ``all``, ``cpu`` or
    ``cuda``; the result of an ``eager`` unit can be run in eager (Inductor's IR cannot).  ``note``: what sort of
    entry, rule or lowering it is.
    """

    name: str
    stage: Stage
    kind: UnitKind
    module: str
    default: bool
    flag: str
    device: str
    eager: bool
    note: str = ""


def kind_of(name: str) -> UnitKind:
    """The kind of the unit of that name."""
    stage = name.partition(".")[0]
    if stage in (UnitKind.DECOMPOSITION, UnitKind.LOWERING):
        return UnitKind(stage)
    return UnitKind.ENTRY if "/" in name else UnitKind.PASS


#: Each kind in the plural.
PLURALS = {
    UnitKind.PASS: "passes",
    UnitKind.ENTRY: "pattern entries",
    UnitKind.DECOMPOSITION: "decompositions",
    UnitKind.LOWERING: "lowerings",
}


def matches(name: str, pattern: str) -> bool:
    """Whether the unit's name, or a glob over names, is the pattern or one of its glob; brackets are part of names."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


#: What calls the C++ compiler, and the option of g++ and clang that leaves vectors out which are not in the source.
CXX, UNVECTORISED = "codegen.cpp_builder", "fno-tree-vectorize"
