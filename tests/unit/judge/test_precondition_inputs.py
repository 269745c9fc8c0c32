"""Input sets that meet what a variant's rewrites assume."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from fxmorph.judge.precondition_inputs import inferred, satisfying_sets
from fxmorph.model import GraphLevel, Level, Proof, Rewrite, RewriteProof, ValuePlan
from fxmorph.programs.capture import Captured
from fxmorph.programs.graph import read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Registry, load_rules

TEXT = "def fn(x):\n    a = x * 0\n    return (a,)\n"


def prepared(values: list[float], assumes: tuple[str, ...], proof: Proof | None = None) -> Any:
    """A bench with one rewrite applied, what it was made of, and the rules."""
    base = next(r for r in load_rules([]) if r.site == "op")
    rule = dataclasses.replace(
        base, id="t", args={"x": "..."}, scalars={}, where=(), dtypes=("float32",), assumes=assumes,
        claim=Level.UNDER_PRECONDITION, preserves=frozenset({"dtype"}), before=lambda x: x * 0,
        after=lambda x: torch.zeros_like(x),
    )  # fmt: skip
    rules = Registry()
    rules.add(rule)
    inputs = InputSet.snapshot([torch.tensor(values)])
    captured = Captured(read_graph(TEXT), inputs, GraphLevel.TORCH, "forward")
    bench = Workbench(captured.graph, inputs, no_grad=True)
    bench.apply(rule, Rewrite("t", "a"))
    if proof is not None:
        bench.proofs.append(RewriteProof("t@a", proof, "key"))
    return bench, captured, rules


def sets(values: list[float]) -> dict[ValuePlan, InputSet]:
    own = InputSet.snapshot([torch.tensor([1.0, 2.0])])
    return {ValuePlan.SEED: own, ValuePlan.SPECIAL: InputSet.snapshot([torch.tensor(values)])}


def test_values_outside_a_stated_precondition_are_changed_to_meet_it() -> None:
    bench, captured, rules = prepared([1.0, 2.0], ("finite",))
    given = sets([float("inf"), -3.0])
    made = satisfying_sets(bench, captured, given, True, rules)
    assert made[ValuePlan.SEED] is given[ValuePlan.SEED]
    assert made[ValuePlan.SPECIAL].rebuild()[0].tolist() == [2.0, -3.0]


def test_an_inferred_precondition_counts_as_a_stated_one() -> None:
    proof = Proof(Level.UNDER_PRECONDITION, "one shape", "Z3-FP", ("finite", "mod_zero_sign"))
    bench, captured, rules = prepared([1.0, 2.0], (), proof)
    assert inferred(bench.proofs) == {"t@a": ("finite",)}
    made = satisfying_sets(bench, captured, sets([float("nan"), 1.0]), True, rules)
    assert made[ValuePlan.SPECIAL].rebuild()[0].tolist() == [1.0, 1.0]


def test_values_that_meet_it_stay_as_they_are() -> None:
    bench, captured, rules = prepared([1.0, 2.0], ("finite",))
    given = sets([5.0, -0.0])
    assert satisfying_sets(bench, captured, given, True, rules)[ValuePlan.SPECIAL] is given[ValuePlan.SPECIAL]


def test_a_set_that_cannot_meet_it_is_left_out() -> None:
    text = "def fn(x):\n    r = x - x\n    a = r * 0\n    return (a,)\n"
    bench, _, rules = prepared([1.0, 2.0], ("nonzero",))
    inputs = InputSet.snapshot([torch.tensor([1.0, 2.0])])
    captured = Captured(read_graph(text), inputs, GraphLevel.TORCH, "forward")
    assert ValuePlan.SPECIAL not in satisfying_sets(bench, captured, sets([1.0, 2.0]), True, rules)
