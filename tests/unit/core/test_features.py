"""Features by kind, and how many of those that there are a corpus covers."""

from __future__ import annotations

from fxmorph.core.features import FeatureKind, coverage_of, features_of, in_words

EVERY = features_of(
    ("torch.add", "torch.sin"), ("aten.add.Tensor",), ("joint.pass_patterns[0]/f", "joint.f", "lowering.aten.mm.out")
)


def test_units_have_the_kind_that_their_name_says() -> None:
    assert {feature.kind for feature in EVERY} == set(FeatureKind) - {FeatureKind.DECOMPOSITION}


def test_of_each_kind_that_there_is_what_is_covered_and_what_is_missing() -> None:
    reached = features_of(("torch.sin",), (), ("joint.f", "joint.of_another_release"))
    rows = {row.kind: row for row in coverage_of(reached, EVERY)}
    assert list(rows) == [kind for kind in FeatureKind if kind is not FeatureKind.DECOMPOSITION]
    api, passes = rows[FeatureKind.API], rows[FeatureKind.PASS]
    assert (api.covered, api.missing, api.all) == (("torch.sin",), ("torch.add",), 2)
    assert (passes.covered, passes.missing) == (("joint.f",), ())


def test_what_says_most_is_named_first() -> None:
    assert in_words(EVERY, most=2) == "joint.f, joint.pass_patterns[0]/f, …"
    assert in_words(features_of(("torch.add",))) == "torch.add"


def test_every_kind_has_a_word_for_tables() -> None:
    assert [kind.plural for kind in FeatureKind] == [
        "torch APIs", "ATen overloads", "lowerings", "decompositions", "pattern entries", "passes",
    ]  # fmt: skip
