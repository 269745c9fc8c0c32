"""Rules written to fool the prover, by kind, and right ones of the same kinds: none is proved beyond its truth.

Each file of ``audit`` has one beside it that says, of each of its rules, the strongest level that is true, and gives
arguments on which the sides differ beyond that.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.programs.bits import same_bits
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import prove_rule
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.sides import both
from fxmorph.rules import Rule, load_rules

pytestmark = pytest.mark.usefixtures("torch_quiet")
HERE = Path(__file__).parent / "audit"
KINDS = "narrow branch constant lane mixed offset shared size tie special other".split()
RULES = {r.id: r for r in load_rules([HERE]) if Path(r.source).parent == HERE}
BUDGET = 500_000
#: A rule that is still proved: only an argument that lies over itself would show it, which is none of a rule's.
STILL_PROVED = {"shared_increment_and_undo"}
OPEN = (Level.UNKNOWN, Level.TESTED, Level.REFUTED)


def truth_of(kind: str) -> dict[str, dict[str, Any]]:
    spec = importlib.util.spec_from_file_location(f"truth_of_{kind}", HERE / f"_{kind}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    truth: dict[str, dict[str, Any]] = module.TRUTH
    return truth


WRONG = {kind: truth_of(kind) for kind in KINDS}
RIGHT = truth_of("right")


def beyond(rule: Rule, dtype: str, said: dict[str, Any]) -> str:
    """How the prover says more of a rule than is true; "" where it does not."""
    proof = prove_rule(rule, dtype, Prover(budget=BUDGET))
    level, true = proof.level, Level(said["level"])
    if level in OPEN or level.value in said.get("arguable", ()):
        return ""
    more = true is Level.REFUTED or level.stronger(true) or "promise" in said
    return f"{rule.id} ({dtype}): {level} by {proof.method}, and {true} is true" if more else ""


def told_beyond(names: list[str], every_dtype: bool = False) -> list[str]:
    wrong = {name: said for table in WRONG.values() for name, said in table.items()}
    found = []
    for name in names:
        rule = RULES[name]
        found += [beyond(rule, d, wrong[name]) for d in (rule.dtypes if every_dtype else rule.dtypes[:1])]
    return [text for text in found if text]


@pytest.mark.parametrize("kind", KINDS)
def test_some_wrong_rules_are_not_proved(kind: str) -> None:
    assert told_beyond(list(WRONG[kind])[1::6]) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_wrong_rule_is_proved(kind: str) -> None:
    assert told_beyond([n for n in WRONG[kind] if n not in STILL_PROVED], every_dtype=True) == []


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "lane"])
def test_a_wrong_rule_differs_in_eager(kind: str) -> None:
    """What depends on the lane depends on the machine too."""
    alike = []
    for name, said in WRONG[kind].items():
        rule = RULES[name]
        if "promise" in said:
            continue
        tensors = dict(zip(rule.args, said["witness"](), strict=False))
        values = {n: t for n, t in tensors.items() if isinstance(t, torch.Tensor)}
        numbers = dict(zip(rule.scalars, list(said["witness"]())[len(rule.args) :], strict=False))
        try:
            sides = both(Instance(rule, values, numbers), values)
        except Exception:
            continue  # a side raises
        pairs = [(sides.before, sides.after), *((sides.left[n], sides.right[n]) for n in sides.left)]
        if all(a.dtype == b.dtype and same_bits(a, b) for a, b in pairs):
            alike.append(name)
    assert alike == []


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_right_rules_are_not_refuted_and_nearly_all_are_decided(step: int) -> None:
    levels = {n: prove_rule(RULES[n], RULES[n].dtypes[0], Prover(budget=BUDGET)).level for n in list(RIGHT)[::step]}
    assert [n for n, level in levels.items() if level is Level.REFUTED] == []
    assert sum(level not in OPEN for level in levels.values()) >= 0.8 * len(levels)


def test_there_are_at_least_fifteen_of_each_kind() -> None:
    assert {k: len(v) for k, v in WRONG.items() if len(v) < 15} == {}
    assert len(RIGHT) >= 90
    assert RULES.keys() == {name for table in (*WRONG.values(), RIGHT) for name in table}
