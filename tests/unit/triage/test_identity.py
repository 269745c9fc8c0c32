"""Findings with one root cause have one fingerprint; others have not."""

from __future__ import annotations

import pytest

from fxmorph.core.finding_parts import Reduced, Skeleton
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.programs.graph import read_graph
from fxmorph.triage.identity import (
    fingerprint,
    group_of,
    isomorphic,
    kind_group,
    of_its_cause,
    one_cause,
    same_group,
    skeleton,
    skeleton_hash,
    specific,
)

WHOLE_PASS = "post_grad.reinplace_inplaceable_ops"
BODY = """def fn(x, y):
    a = x.flip(0)
    b = torch._foreach_add_([x], [a])
    return (x,)
"""


def of(text: str) -> Skeleton:
    return skeleton(read_graph(text))


def test_names_views_and_arithmetic_around_the_cause_do_not_count() -> None:
    other = """def fn(p, q):
    n = p.view(4, 3)
    m = torch.flip(n, [0])
    k = m * 2
    j = torch._foreach_add_([p], [k])
    r = p + 1
    return (r, k)
"""
    assert of(BODY) == of(other)
    assert skeleton_hash(of(BODY)) == skeleton_hash(of(other))


def test_the_order_of_independent_calls_does_not_count() -> None:
    one: Skeleton = (("a", ()), ("b", ()), ("c", (0, 1)))
    two: Skeleton = (("b", ()), ("a", ()), ("c", (0, 1)))
    assert skeleton_hash(one) == skeleton_hash(two)
    assert isomorphic(one, two)


@pytest.mark.parametrize(
    "other",
    [
        (("a", ()), ("b", (0,)), ("c", (0, 1))),
        (("a", ()), ("b", ()), ("c", (0,))),
        (("a", ()), ("a", ()), ("c", (0, 1))),
        (("a", ()), ("b", ())),
    ],
)
def test_another_graph_has_another_hash(other: Skeleton) -> None:
    one: Skeleton = (("a", ()), ("b", ()), ("c", (0, 1)))
    assert skeleton_hash(one) != skeleton_hash(other)
    assert not isomorphic(one, other)


def test_a_graph_of_common_calls_alone_keeps_them() -> None:
    assert [name for name, _ in of("def fn(x):\n    a = x + x\n    return (a,)\n")] == ["add"]


@pytest.mark.parametrize(
    ("unit", "alone"),
    [
        ("post_grad.pass_patterns[1]/pointless_cumsum_replacement", True),
        ("decomposition.aten.silu.default", True),
        ("lowering.aten.sin.default", True),
        ("codegen.CppVecOverrides.exp", True),
        (WHOLE_PASS, False),
        ("scheduler.can_fuse_vertical", False),
        ("lowering.layout_optimization", False),
        ("", False),
    ],
)
def test_one_pattern_or_operator_is_a_cause_and_a_whole_pass_is_not(unit: str, alone: bool) -> None:
    one, other = of(BODY), of(BODY.replace("flip(0)", "roll(1)"))
    same = fingerprint([Kind.VALUE], "inductor", unit, "", one) == fingerprint(
        [Kind.VALUE], "inductor", unit, "", other
    )
    assert (specific(unit), same) == (alone, alone)


def test_kinds_of_one_cause_are_one_group_and_signatures_tell_errors_apart() -> None:
    def key(*kinds: Kind, signature: str = "") -> str:
        return fingerprint(kinds, "inductor", WHOLE_PASS, signature, of(BODY))

    assert key(Kind.VALUE) == key(Kind.MUTATION, Kind.VALUE) == key(Kind.GRADIENT, Kind.STRIDE)
    assert key(Kind.VALUE) != key(Kind.STRIDE)
    assert key(Kind.COMPILE_ERROR, signature="KeyError a.py:f") != key(Kind.COMPILE_ERROR, signature="KeyError a.py:g")


def test_the_strongest_group_of_kinds_is_what_is_reduced() -> None:
    assert same_group(frozenset({Kind.STRIDE, Kind.MUTATION, Kind.VALUE})) == {Kind.MUTATION, Kind.VALUE}
    assert kind_group([Kind.STRIDE, Kind.ALIAS]) == "alias"
    assert same_group(frozenset({Kind.CRASH})) == {Kind.CRASH}


def test_a_group_is_of_one_seed_and_unit() -> None:
    assert group_of([Kind.VALUE], "u", "s") == group_of([Kind.MUTATION], "u", "s")
    assert len({group_of([Kind.VALUE], u, s) for u in "uv" for s in "st"}) == 4


def test_equal_hashes_of_unlike_graphs_are_told_apart() -> None:
    """Two triangles and a hexagon of equal calls, which refining colours cannot tell apart in general."""

    def finding(graph: Skeleton, unit: str = WHOLE_PASS) -> Finding:
        return Finding(
            "f", "c", "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", unit, "", "f", "", "",
            reduced=Reduced(skeleton=graph),
        )  # fmt: skip

    ring: Skeleton = (*(("s", ()) for _ in range(4)), *(("t", (i, (i + 1) % 4)) for i in range(4)))
    pairs: Skeleton = (*(("s", ()) for _ in range(4)), *(("t", (0, 1)),) * 2, *(("t", (2, 3)),) * 2)
    assert skeleton_hash(ring) == skeleton_hash(pairs)
    assert not one_cause(finding(ring), finding(pairs))
    assert one_cause(finding(ring), finding(ring))
    assert one_cause(finding(ring, "a/b"), finding(pairs, "a/b"))


def test_what_time_left_without_a_unit_is_of_the_cause_that_its_graph_has() -> None:
    def finding(unit: str, graph: Skeleton, *kinds: Kind, finished: bool | None = True) -> Finding:
        return Finding(
            "f", "c", "s", "", kinds or (Kind.VALUE,), BugClass.UGO, "inductor", unit, "", "f", "", "",
            reduced=Reduced(skeleton=graph, finished=finished),
        )  # fmt: skip

    pool: Skeleton = (("avg_pool2d", ()),)
    blamed = finding("lowering.aten.avg_pool2d.default", pool)
    assert of_its_cause(blamed, finding("", pool, Kind.GRADIENT, finished=False))
    assert not of_its_cause(blamed, finding("", pool))  # no unit was found in all the time that it takes
    assert not of_its_cause(blamed, finding("", pool, Kind.DTYPE, finished=False))
    assert not of_its_cause(blamed, finding("", (*pool, ("flip", (0,))), finished=False))
    assert not of_its_cause(blamed, finding("", (), finished=False))
    assert not of_its_cause(finding("", pool), finding("", pool, finished=False))
