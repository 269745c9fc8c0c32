"""The synthesiser: typing for all sizes, derivations, the hunt, and a search end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.commands.synthesise import write_pack
from fxmorph.model import Level
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.proposal import RuleProposal, read_pack
from fxmorph.propose.synthesis import enumeration
from fxmorph.propose.synthesis.consequence import BITS, REALS, Derivations, Equation, schema, trivial
from fxmorph.propose.synthesis.enumeration import Counts, Enumeration, Workload
from fxmorph.propose.synthesis.fingerprints import FieldSample, Key, agree
from fxmorph.propose.synthesis.form_operators import FORMS, OPERATORS, broadcast, chosen_operators
from fxmorph.propose.synthesis.forms import MATRIX, Expression, apply, argument, bare
from fxmorph.propose.synthesis.hunting import hunt
from fxmorph.propose.synthesis.proposing import canonical, generalised, proposed
from fxmorph.propose.synthesis.search import Tally, synthesise
from fxmorph.propose.synthesis.settling import settle
from fxmorph.prove.prover import Prover

X, Y, Z = (argument(n, "f", MATRIX) for n in "xyz")


def make(text: str, *operands: Expression) -> Expression:
    """The form of that text on these operands."""
    form = next(f for f in FORMS if f.text == text and f.kinds == tuple(o.kind for o in operands))
    made = apply(form, operands)
    assert made is not None
    return made


def neg(e: Expression) -> Expression:
    return make("torch.neg({0})", e)


def flip(e: Expression) -> Expression:
    return make("torch.flip({0}, (-1,))", e)


def add(a: Expression, b: Expression) -> Expression:
    return make("({0} + {1})", a, b)


def sub(a: Expression, b: Expression) -> Expression:
    return make("({0} - {1})", a, b)


# -- forms and expressions -------------------------------------------------------


def test_there_are_thirty_operators() -> None:
    assert len(OPERATORS) == 30
    assert chosen_operators("neg, add,neg") == ("neg", "add")
    with pytest.raises(ValueError, match="'sin': not one of neg, abs"):
        chosen_operators("neg,sin")


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        ([("...", "m", "n"), ("...", "m", "1")], ("...", "m", "n")),
        ([("...", "m", "n"), ("...", "n", "m")], None),
        ([("...", "m", "n"), ("...", "m")], None),  # the last of ... may be anything
        ([("...", "m", "n"), ("n",)], ("...", "m", "n")),
    ],
)
def test_shapes_broadcast_only_where_they_do_for_all_sizes(shapes: list[tuple[str, ...]], wanted: object) -> None:
    assert broadcast(shapes) == wanted


def test_operands_that_may_be_exchanged_are_in_order() -> None:
    assert add(neg(X), Y) == add(Y, neg(X))
    assert sub(neg(X), Y) != sub(Y, neg(X))
    assert bare(add(X, Y).text) == "x + y"
    assert bare("(x) + (y)") == "(x) + (y)"


def test_a_rule_is_stated_for_as_many_dimensions_as_its_operators_name() -> None:
    one = proposed(generalised(Equation(flip(neg(X)), neg(flip(X)), BITS)))
    assert one.args == {"x": "... n"}
    both = proposed(generalised(Equation(sub(X, Y), add(X, neg(Y)), BITS)))
    assert both.args == {"x": "...", "y": "..."}
    assert both.where == ("x.shape == y.shape",)


def test_renaming_makes_no_other_pair() -> None:
    a = canonical(Equation(sub(Z, Y), add(Z, neg(Y)), BITS))
    b = canonical(Equation(sub(Y, X), add(neg(X), Y), BITS))
    assert (a.left, a.right) == (b.left, b.right)


# -- what looks equal, and what follows ------------------------------------------


def test_enumeration_pairs_what_is_equal() -> None:
    work = Workload("few", (X, Y), frozenset(("neg", "maximum", "minimum")), 3)
    counts = Counts()
    pairs = {(str(p.small), str(p.large)) for p in Enumeration(work, 0, counts).pairs(lambda: False)}
    wanted = "torch.neg(torch.minimum(x, y))", "torch.maximum(torch.neg(x), torch.neg(y))"
    assert wanted in pairs or wanted[::-1] in pairs
    assert ("x", "torch.neg(x)") not in pairs
    assert counts.pairs == len(pairs) and counts.expressions > counts.buckets


def test_the_field_tells_what_is_equal_over_the_reals() -> None:
    sample = FieldSample((X, Y), 0)
    left = sample.elements(sub(add(X, Y), Y))
    assert agree(left, sample.elements(X)) is True
    assert agree(left, sample.elements(Y)) is False


def test_what_follows_from_kept_rules() -> None:
    kept = Derivations()
    kept.add(Equation(sub(X, Y), add(X, neg(Y)), BITS))
    kept.add(Equation(flip(neg(X)), neg(flip(X)), BITS))
    square = make("torch.square({0})", X)
    assert kept.follows(Equation(sub(square, flip(Y)), add(square, neg(flip(Y))), BITS)), "an instance"
    assert kept.follows(Equation(neg(sub(X, Y)), neg(add(X, neg(Y))), BITS)), "inside another operator"
    assert kept.follows(Equation(sub(X, neg(flip(Y))), add(X, neg(flip(neg(Y)))), BITS)), "a step on each side"
    assert not kept.follows(Equation(sub(X, Y), sub(Y, X), BITS))


def test_what_is_weaker_derives_nothing_stronger() -> None:
    kept = Derivations()
    kept.add(Equation(sub(X, Y), add(X, neg(Y)), REALS, frozenset(("finite",))))
    wanted = sub(neg(X), Y), add(neg(X), neg(Y))
    assert not kept.follows(Equation(*wanted, BITS, frozenset(("finite",))))
    assert not kept.follows(Equation(*wanted, REALS))
    assert kept.follows(Equation(*wanted, REALS, frozenset(("finite",))))


def test_a_rule_about_one_shape_derives_nothing_about_several() -> None:
    kept = Derivations()
    total = "torch.sum({0}, -1)"
    kept.add(Equation(make(total, add(X, Y)), add(make(total, X), make(total, Y)), REALS))
    narrow = make("torch.sum({0}, -1, keepdim=True)", Y)
    assert not kept.follows(Equation(make(total, add(X, narrow)), add(make(total, X), make(total, narrow)), REALS))


def test_trivial_rules_and_rules_that_are_alike() -> None:
    maximum = make("torch.maximum({0}, {1})", X, X)
    assert trivial(X, neg(neg(X))) and trivial(X, maximum)
    assert not trivial(sub(X, Y), add(X, neg(Y)))
    relu = make("torch.relu({0})", X)
    assert schema(flip(neg(X)), neg(flip(X))) == schema(flip(relu), make("torch.relu({0})", flip(X)))
    assert schema(neg(relu), relu) != schema(relu, neg(relu))


# -- false rules -----------------------------------------------------------------

FALSE = {
    "NaN": ({"x": "...", "y": "..."}, "torch.maximum(x, y)", "torch.where(x < y, y, x)", "float32"),
    "Inf": ({"x": "..."}, "x - x", "torch.zeros_like(x)", "float32"),
    "size 1": ({"x": "... n"}, "torch.flip(x, (-1,))", "x * 1", "float32"),
    "square": ({"x": "... n n"}, "torch.transpose(x, -1, -2) - x", "x - torch.transpose(x, -1, -2)", "float32"),
    "overflow": ({"x": "..."}, "(x + 1) > x", "x == x", "int64"),
    "empty": ({"x": "... n"}, "torch.sum(x, -1)", "torch.sum(x, -1) + (torch.amax(x, -1) > 0) * 0", "float32"),
    "rounding": ({"x": "...", "y": "..."}, "(x + y) - y", "x + 1e-6", "float32"),
    "rounding of integers": ({"x": "...", "y": "..."}, "x / y", "torch.reciprocal(y / x)", "int64"),
    "dtype": ({"x": "..."}, "x / 2", "torch.floor(x / 2)", "int64"),
    "parity": ({"x": "... n"}, "torch.roll(torch.roll(x, 1, -1), 1, -1)", "torch.roll(x, -2, -1) * 1", "float32"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FALSE)
def test_the_hunt_finds_what_is_false(kind: str) -> None:
    args, before, after, dtype = FALSE[kind]
    where = ("x.shape == y.shape",) if "y" in args else ()
    one = RuleProposal.model_validate(
        {"name": "false", "doc": "d", "aims": "ugo", "args": args, "before": before, "after": after, "where": where,
         "dtypes": [dtype]}
    )  # fmt: skip
    found = hunt(build_rule(one), dtype, rounds=16)
    assert found.claim is None, found.examples
    assert found.wrong


def test_a_pair_that_needs_finite_values_says_so() -> None:
    settled = settle(proposed(generalised(Equation(X, sub(add(X, Y), Y), REALS))), Prover(), 0, ())
    assert settled.proposal is not None
    assert settled.proposal.assumes == ("finite",)
    assert settled.level is Level.EXACT_REAL
    assert settled.tried > 100


# -- the search ------------------------------------------------------------------


def test_lying_fingerprints_make_no_false_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumeration, "key", lambda made: Key(0, 0))  # everything looks equal
    tally = synthesise(("neg", "abs", "square", "exp"), 30, 0, lambda t: None)
    assert tally.refuted >= 3
    # Of x = -x, x = |x|, x = x * x and x = exp(x) one is true, of numbers that are not negative.
    assert {(k.proposal.after, k.proposal.assumes) for k in tally.kept} == {("torch.abs(x)", ("nonneg",))}


@pytest.mark.slow
def test_a_search_is_repeatable_and_its_pack_is_read_again(tmp_path: Path) -> None:
    told: list[str] = []

    def search() -> Tally:
        return synthesise(("flip", "transpose"), 120, 3, lambda t: told.append(t.doing))

    tally = search()
    assert told[-1] == "done" and tally.left == 0
    rules = {(k.proposal.before, k.proposal.after): k for k in tally.kept}
    turned = rules["torch.flip(torch.transpose(x, -1, -2), (-1,))", "torch.transpose(torch.flip(x, (-2,)), -1, -2)"]
    assert turned.level is Level.INDEX_EXACT and not turned.trivial
    assert any(k.trivial for k in tally.kept) and tally.proved >= len(tally.kept)
    pack = tmp_path / "pack.jsonl"
    write_pack(pack, tally.kept, "# header")
    assert [line.proposal for line in read_pack(pack)] == [k.proposal for k in tally.kept if not k.trivial]
    assert [k.proposal for k in search().kept] == [k.proposal for k in tally.kept]
