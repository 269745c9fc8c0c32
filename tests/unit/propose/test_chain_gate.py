"""Recipes and mutations of proposals, on a corpus of one seed; limits of the gate's worker processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fxmorph.propose.gate.chain_gate import judge_mutation, judge_recipe
from fxmorph.propose.gate.gatekeeper import Gate
from fxmorph.propose.gate.sources import CorpusGraphs
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.proposal import (
    TOO_LONG,
    Judged,
    MutationProposal,
    Outcome,
    RecipeProposal,
    read_proposal,
    read_text,
)
from fxmorph.rules import Registry

pytestmark = pytest.mark.usefixtures("torch_quiet")
SEED = """import torch
def make_inputs(): return [torch.randn(4, 6)]
def fn(x):
    y = x * 2
    return torch.softmax(y, -1) + 1
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusGraphs:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "softmax.py").write_text(SEED)
    return CorpusGraphs(folder, folder)


def bodies(task: str, name: str, before: str, after: str, **parts: Any) -> Any:
    body = {"task": task, "name": name, "doc": "d", "aims": "ugo", "args": {"x": "..."}, "dtypes": ["float32"]}
    return read_proposal({**body, "before": before, "after": after, **parts})


@pytest.fixture(scope="module")
def rules() -> Registry:
    registry = Registry()
    for proposal in (
        bodies("rule", "twice", "x * 2", "x + x", claim="BIT_EXACT"),
        bodies("rule", "twice_back", "x + x", "2 * x", claim="BIT_EXACT"),
        bodies("rule", "wrong", "x * 2", "x * 3", claim="EXACT_REAL"),
    ):
        registry.add(build_rule(proposal))
    return registry


def recipe(corpus: CorpusGraphs, rules: Registry, *steps: str, seeds: tuple[str, ...] = ("soft*",)) -> Judged:
    made = read_proposal({"task": "recipe", "name": "r", "doc": "d", "aims": "ugo", "seeds": seeds, "rules": steps})
    assert isinstance(made, RecipeProposal)
    return judge_recipe(made, "test:1", corpus, rules)


def test_a_recipe_is_admitted_with_the_variant_that_it_makes(corpus: CorpusGraphs, rules: Registry) -> None:
    said = recipe(corpus, rules, "twice", "proposed_twice_b*")
    assert said.outcome is Outcome.ADMITTED
    assert said.made[0].startswith("softmax: proposed_twice@") and " ; proposed_twice_back@" in said.made[0]


def test_other_outcomes_of_recipes(corpus: CorpusGraphs, rules: Registry) -> None:
    assert recipe(corpus, rules, "no_such_rule").outcome is Outcome.MALFORMED
    assert recipe(corpus, rules, "twice{k").outcome is Outcome.MALFORMED
    assert recipe(corpus, rules, "twice", seeds=("nothing*",)).outcome is Outcome.MALFORMED
    missed = recipe(corpus, rules, "twice_back")
    assert missed.outcome is Outcome.UNKNOWN and "takes twice_back" in missed.reason
    wrong = recipe(corpus, rules, "wrong")
    assert wrong.outcome is Outcome.REFUTED and "proposed_wrong@" in wrong.counterexample


def test_a_mutation_makes_seeds_that_run(corpus: CorpusGraphs, tmp_path: Path) -> None:
    from fxmorph.core.seeds import find_seeds
    from fxmorph.programs.load import load_seed

    proposal = bodies("mutation", "tripled", "x * 2", "(x * 2).clone().mul_(3)", issue="pytorch/pytorch#1")
    assert isinstance(proposal, MutationProposal)
    said = judge_mutation(proposal, "test:1", corpus)
    assert (said.outcome, said.made) == (Outcome.ADMITTED, ("tripled_softmax",))
    file = tmp_path / "made.py"
    file.write_text(said.programs[0][1])
    made = load_seed(find_seeds([str(file)])[0][0]).fresh()
    (out,) = made.drive(made.fn)
    assert out.equal((made.args[0] * 2 * 3).softmax(-1) + 1)
    absent = bodies("mutation", "absent", "x.cos()", "x.sin()")
    assert judge_mutation(absent, "test:1", corpus).outcome is Outcome.UNKNOWN


@pytest.mark.slow
def test_a_proposal_that_takes_too_long_costs_itself_only(tmp_path: Path) -> None:
    heavy = "y = x.new_ones(1000, 1000)\nfor i in range(1000):\n    y = y @ y\nreturn x + y[0, 0] * 0"
    proposals = [
        bodies("rule", "heavy", "x + 1", heavy), bodies("rule", "light", "x + 1", "1 + x + 0 * x", assumes=["finite"]),
    ]  # fmt: skip
    lines = [read_text(json.dumps(p.model_dump(mode="json")), "test:1") for p in proposals]
    with Gate(1, (), tmp_path, limit=15.0) as gate:
        first, second = gate.judge_all(lines)
    assert first.outcome is Outcome.UNKNOWN and first.late and first.reason.startswith(TOO_LONG)
    assert second.outcome in (Outcome.ADMITTED, Outcome.REFUTED)
