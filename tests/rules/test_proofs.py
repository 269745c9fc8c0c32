"""The prover over the lists: every wrong rule is refuted, right ones are decided, published ones as expected.

One dtype of each rule, that of its witness.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.programs.inputs import dtype_name
from fxmorph.prove.levels import levels_of, shipped_levels
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import prove_rule
from fxmorph.rewriting.instances import Instance
from fxmorph.rules import Rule, load_rules

pytestmark = pytest.mark.usefixtures("torch_quiet")
HERE = Path(__file__).parent
#: Units of z3 for one query: enough for what the lists hold.
BUDGET = 500_000
REFUTED: set[str] = set()
UNDECIDED = (Level.UNKNOWN, Level.REFUTED)


def listed(folder: str) -> dict[str, tuple[Rule, dict[str, Any]]]:
    """The rules of a list, each with its witness."""
    rules = [r for r in load_rules([HERE / folder]) if Path(r.source).parent == HERE / folder]
    return {r.id: (r, sys.modules[r.before.__module__].WITNESS[r.id]()) for r in rules}


ACCEPT, REFUSE, PEER = listed("accept"), listed("refuse"), listed("peer")
EXPECTED: dict[str, str] = sys.modules[next(iter(PEER.values()))[0].before.__module__].EXPECTED
PROVER = Prover(budget=BUDGET)


def dtype_of(rule: Rule, witness: dict[str, Any]) -> str:
    names = [dtype_name(v.dtype) for v in witness.values() if isinstance(v, torch.Tensor)]
    return next((n for n in names if n in rule.dtypes), rule.dtypes[0])


def at_witness(rule: Rule, witness: dict[str, Any]) -> Level:
    tensors = {n: v for n, v in witness.items() if isinstance(v, torch.Tensor)}
    scalars = {n: v for n, v in witness.items() if n not in tensors}
    return PROVER.prove(Instance(rule, tensors, scalars)).proof.level


@pytest.mark.parametrize("name", REFUSE)
def test_a_wrong_rule_is_refuted(name: str) -> None:
    """By arguments that the prover draws; the few that it leaves undecided, by their witness."""
    rule, witness = REFUSE[name]
    proof = prove_rule(rule, dtype_of(rule, witness), PROVER)
    assert proof.level in UNDECIDED, proof
    assert bool(proof.counterexample) == (proof.level is Level.REFUTED)
    if proof.level is Level.REFUTED:
        REFUTED.add(name)
    else:
        assert at_witness(rule, witness) is Level.REFUTED


def test_subnormal_numbers_are_not_flushed() -> None:
    """What differs below the normal range alone is refuted, whatever a library set in this process."""
    rule, witness = REFUSE["wrong_scaling_down_in_two_steps"]
    torch.set_flush_denormal(True)
    try:
        assert prove_rule(rule, dtype_of(rule, witness), Prover()).level is Level.REFUTED
    finally:
        torch.set_flush_denormal(False)


def test_nearly_all_wrong_rules_are_refuted_without_their_witness() -> None:
    if len(REFUTED) < len(REFUSE) / 2:
        pytest.skip("runs after the tests of the single rules")
    assert len(REFUTED) >= 0.95 * len(REFUSE)


def decided(names: list[str]) -> float:
    levels = {name: at_witness(*ACCEPT[name]) for name in names}
    assert [n for n, level in levels.items() if level is Level.REFUTED] == []
    return sum(level not in UNDECIDED for level in levels.values()) / len(levels)


def test_right_rules_are_decided() -> None:
    assert decided(list(ACCEPT)[1::4]) >= 0.95


@pytest.mark.slow
def test_all_right_rules_are_decided() -> None:
    assert decided(list(ACCEPT)) >= 0.95


@pytest.mark.parametrize("name", PEER)
def test_published_rules_are_as_expected(name: str) -> None:
    rule, witness = PEER[name]
    level = at_witness(rule, witness)
    if EXPECTED[name] == "refuted":
        assert level is Level.REFUTED
    else:
        assert level not in (*UNDECIDED, Level.TESTED)


def test_the_lists_are_long_enough() -> None:
    assert len(ACCEPT) >= 120
    assert len(REFUSE) >= 80


def test_the_shipped_levels_are_of_the_rules_as_they_are_and_none_is_refuted() -> None:
    table = shipped_levels()
    levels = {rule.id: levels_of(rule, table) for rule in load_rules()}
    assert [name for name, shown in levels.items() if not shown] == []
    assert [name for name, shown in levels.items() if Level.REFUTED.value in shown.values()] == []
