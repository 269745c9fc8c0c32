"""Proofs that solvers decide again from the text of their queries."""

from dataclasses import replace
from pathlib import Path

import pytest

from fxmorph.model import Level
from fxmorph.prove import recheck
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import Prover
from fxmorph.prove.recheck import AGREES, COMPUTED, Recheck
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.prove.smt.second_opinion import TIMED_OUT, Answer
from fxmorph.rules import load_rules

RULES = load_rules()


def proved(rule: str, folder: Path) -> tuple[RuleProof, Prover]:
    prover = Prover(Certificates(folder))
    return prove_rule(RULES[rule], "float32", prover, proved=3, tried=0), prover


def said(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr(recheck, "second_opinion", lambda text, solver: Answer(f"{solver} 1", word, 0.1))


@pytest.mark.parametrize("rule", ["layout_permute_021", "algebra_clamp_in_two"])
def test_each_query_is_decided_again(rule: str, tmp_path: Path) -> None:
    proof, prover = proved(rule, tmp_path)
    again = Recheck().of(RULES[rule], proof, prover, ("z3",))
    ((solver, counts),) = again.again
    assert solver == "z3" and dict(counts).keys() == {AGREES} and dict(counts)[AGREES] >= 1
    assert again.level is proof.level
    stored = [c for key in proof.certificates if (c := Certificates(tmp_path).get(key)) is not None]
    keys = {key for c in stored for key in (c.key, *c.obligations)}
    answered = [q for key in keys if (c := Certificates(tmp_path).get(key)) is not None for q in c.queries]
    assert answered and all(q.answers[0].startswith("z3 ") and "unsat in" in q.answers[0] for q in answered
                            if q.result == "unsat")  # fmt: skip


def test_a_time_out_is_told_and_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof, prover = proved("algebra_clamp_in_two", tmp_path)
    said(monkeypatch, TIMED_OUT)
    again = Recheck().of(RULES[proof.rule], proof, prover, ("cvc5",))
    assert again.level is proof.level
    ((_, counts),) = again.again
    assert dict(counts).keys() == {TIMED_OUT}


def test_a_contradiction_takes_the_level_back_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof, prover = proved("algebra_clamp_in_two", tmp_path)
    said(monkeypatch, "sat")
    again = Recheck().of(RULES[proof.rule], proof, prover, ("cvc5",))
    assert again.level is Level.UNKNOWN
    assert again.reason.startswith("cvc5 1 says sat where z3 said unsat")
    assert list((tmp_path / "disagreements").glob("*.smt2"))


@pytest.mark.parametrize(
    ("rule", "method"), [("mutate_two_clones", "LABEL"), ("algebra_add_swapped", "TERM"), ("reduce_sum_as_mean", "PIT")]
)
def test_what_rests_on_no_query_is_computed_again(rule: str, method: str, tmp_path: Path) -> None:
    proof, prover = proved(rule, tmp_path)
    again = Recheck().of(RULES[rule], proof, prover, (COMPUTED,))
    assert method in proof.method
    assert (again.again, again.level) == (((COMPUTED, ((AGREES, 1),)),), proof.level)


def test_what_was_shown_by_chance_is_taken_back(tmp_path: Path) -> None:
    """Names that collide in one draw do not in another."""
    proof, prover = proved("algebra_clamp_in_two", tmp_path)
    lucky = replace(proof, level=Level.INDEX_EXACT)
    again = Recheck().of(RULES[proof.rule], lucky, prover, (COMPUTED,))
    assert again.level is Level.UNKNOWN and again.reason.startswith("computed again it is ")
