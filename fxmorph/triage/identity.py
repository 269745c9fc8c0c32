"""Which findings have one root cause, within a run and across runs.

Two keys.  A *group* (kinds, guilty unit, seed) is known before anything is reduced: of each only one case
is.  A *fingerprint* (kinds, stage, unit, signature of the exception, skeleton of the reduced graph) is the
same on every machine and in every run; where two skeletons have one hash networkx says whether they are
isomorphic.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from torch import fx

from fxmorph.core.finding_parts import Skeleton
from fxmorph.model import Finding, Kind, digest
from fxmorph.programs.canon import canonical
from fxmorph.programs.graph import calls

#: Kinds that one root cause shows as, strongest first.
GROUPS: tuple[tuple[str, frozenset[Kind]], ...] = (
    ("value", frozenset({Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.GRADIENT, Kind.STRUCTURE, Kind.SHAPE})),
    ("dtype", frozenset({Kind.DTYPE})),
    ("alias", frozenset({Kind.ALIAS, Kind.IDENTITY})),
    ("layout", frozenset({Kind.STRIDE, Kind.OFFSET})),
    ("raises", frozenset({Kind.RAISES, Kind.COMPILE_ERROR})),
)
#: Operations that say nothing about a cause: the skeleton goes through them.
COMMON = frozenset(
    "add sub mul div neg getitem view reshape permute transpose unsqueeze squeeze expand contiguous t mT numpy_T "
    "clone slice select narrow chunk split unbind movedim flatten unflatten size to float double type_as "
    "relu abs exp sin cos tanh sigmoid".split()
)


def kind_group(kinds: Collection[Kind]) -> str:
    """The name of the strongest group that the kinds belong to."""
    return next((name for name, group in GROUPS if group & set(kinds)), min(kinds))


def strength(kinds: Collection[Kind]) -> int:
    """The place of the strongest group that the kinds belong to: 0 for wrong values, the more the weaker."""
    return next((i for i, (_, group) in enumerate(GROUPS) if group & set(kinds)), len(GROUPS))


def same_group(kinds: frozenset[Kind]) -> frozenset[Kind]:
    """Those of the kinds that are of their strongest group."""
    return next((kinds & group for _, group in GROUPS if kinds & group), kinds)


def group_of(kinds: Collection[Kind], unit: str, seed: str) -> str:
    """Equal for cases of one seed that are one finding as far as blame says; ``seed`` is its hash."""
    return digest([kind_group(kinds), unit, seed], 12)


# -- the graph -------------------------------------------------------------------


def skeleton(graph: fx.Graph) -> Skeleton:
    """The calls of a graph without those that say nothing; all of them where none says more."""
    nodes = calls(graph)
    names = {n: canonical(n).name for n in nodes}
    kept = [n for n in nodes if names[n] not in COMMON] or nodes
    number = {n: i for i, n in enumerate(kept)}
    reach: dict[fx.Node, frozenset[int]] = {}
    out = []
    for node in graph.nodes:
        above = frozenset[int]().union(*(reach[n] for n in node.all_input_nodes))
        if node in number:
            out.append((names[node], tuple(sorted(above))))
            above = frozenset({number[node]})
        reach[node] = above
    return tuple(out)


def skeleton_hash(graph: Skeleton) -> str:
    """12 hex digits, whatever the order of the calls: colours refined in both directions (Weisfeiler and Leman)."""
    above = [deps for _, deps in graph]
    below: list[list[int]] = [[] for _ in graph]
    for i, deps in enumerate(above):
        for j in deps:
            below[j].append(i)
    colours = [name for name, _ in graph]
    for _ in graph:
        colours = [
            digest([c, sorted(colours[j] for j in above[i]), sorted(colours[j] for j in below[i])])
            for i, c in enumerate(colours)
        ]
    return digest(sorted(colours), 12)


def isomorphic(a: Skeleton, b: Skeleton) -> bool:
    """Whether two skeletons are one but for the order of their calls."""
    import networkx

    def made(graph: Skeleton) -> networkx.DiGraph:
        out = networkx.DiGraph()
        out.add_nodes_from((i, {"name": name}) for i, (name, _) in enumerate(graph))
        out.add_edges_from((j, i) for i, (_, deps) in enumerate(graph) for j in deps)
        return out

    return bool(networkx.is_isomorphic(made(a), made(b), node_match=lambda x, y: x["name"] == y["name"]))


# -- the key -----------------------------------------------------------------------


def specific(unit: str) -> bool:
    """Whether a unit is a cause by itself: one pattern, decomposition, lowering or printer of one operation."""
    return "/" in unit or unit.count(".") > 1


def fingerprint(
    kinds: Collection[Kind], stage: str, unit: str, signature: str, graph: Skeleton, structure: str = ""
) -> str:
    """Key of a finding, 12 hex digits; ``structure`` stands for the graph where there is no skeleton."""
    shape = "" if specific(unit) else skeleton_hash(graph) if graph else structure
    return digest([kind_group(kinds), stage, unit, signature, shape], 12)


def checked_fingerprint(seed: str, kinds: Collection[Kind], stage: str, unit: str) -> str:
    """Key of a seed that differs as it is and was not reduced, 12 hex digits; ``seed`` is its label.

    The same wherever the current folder lies, for seeds below it.
    """
    place, here = Path(os.path.abspath(seed)), Path.cwd()
    label = place.relative_to(here).as_posix() if place.is_relative_to(here) else seed
    return digest([label, sorted(kinds), stage, unit], 12)


def one_cause(a: Finding, b: Finding) -> bool:
    """Whether two findings with one fingerprint are one: hashes of graphs alone may coincide."""
    return specific(a.unit) or isomorphic(skeleton_of(a), skeleton_of(b))


def of_its_cause(blamed: Finding, other: Finding) -> bool:
    """Whether ``other``, whose investigation ended before a unit was found, is like ``blamed`` as far as it came: its
    kinds, its stage and its graph are.
    """
    ended = not other.unit and other.reduced.finished is False
    if not (blamed.unit and ended and skeleton_of(other)):
        return False
    alike = (kind_group(blamed.kinds), blamed.stage) == (kind_group(other.kinds), other.stage)
    return alike and isomorphic(skeleton_of(blamed), skeleton_of(other))


def skeleton_of(finding: Finding) -> Skeleton:
    """The skeleton that was stored with a finding; empty in those of earlier releases."""
    return finding.reduced.skeleton or ()
