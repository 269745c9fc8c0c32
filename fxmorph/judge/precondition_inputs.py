"""Input sets on which the preconditions of a variant's rewrites hold.

A rewrite that means the same only for finite, say, or non-negative values at its site is compared
and judged on such values: input sets that do not give them are changed until they do, or left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import torch

from fxmorph.judge.journal import note
from fxmorph.model import Level, Recipe, RewriteProof, ValuePlan
from fxmorph.programs.capture import Captured
from fxmorph.programs.graph import print_graph
from fxmorph.programs.inputs import FLOATING, InputSet, flat_storage
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rewriting.preconditions import meet
from fxmorph.rewriting.recipes import replay_recipe
from fxmorph.rewriting.workbench import EXPOSE, Workbench
from fxmorph.rules import ASSUMPTIONS, Registry
from fxmorph.torchapi.dispatch import tree_leaves


def satisfying_sets(
    bench: Workbench, captured: Captured, inputs: Mapping[ValuePlan, InputSet], no_grad: bool, rules: Registry
) -> dict[ValuePlan, InputSet]:
    """Of each input set one on which every rewrite of ``bench``, made of ``captured``, has what it needs.

    The seed's own inputs are such; where no other set has a precondition to meet, all stay.
    """
    recipe, conditions = Recipe(tuple(bench.applied)), inferred(bench.proofs)
    stated = {a for r in recipe.rewrites if r.rule != EXPOSE for a in rules[r.rule].assumes}
    names = frozenset(stated.union(*conditions.values()))
    if not names:
        return dict(inputs)
    text = print_graph(bench.graph)
    out: dict[ValuePlan, InputSet] = {}
    for plan, given in inputs.items():
        made: InputSet | None = given
        if plan is not ValuePlan.SEED:
            made = _satisfying(captured, given, no_grad, recipe, rules, conditions, names, text)
            how = "left out" if made is None else "as it is" if made is given else "changed to meet them"
            note(f"  preconditions {', '.join(sorted(names))}: plan {plan} {how}")
        if made is not None:
            out[plan] = made
    return out


def inferred(proofs: Iterable[RewriteProof]) -> dict[str, tuple[str, ...]]:
    """Rewrite -> what its proof asks of the values at its site, where it holds under a precondition."""
    return {
        p.rewrite: tuple(a for a in p.proof.assumptions if a in ASSUMPTIONS)
        for p in proofs
        if p.proof.level is Level.UNDER_PRECONDITION
    }


def _satisfying(
    captured: Captured, inputs: InputSet, no_grad: bool, recipe: Recipe, rules: Registry,
    conditions: Mapping[str, tuple[str, ...]], names: frozenset[str], text: str,
) -> InputSet | None:  # fmt: skip
    """The inputs, or like ones, on which the recipe applies and gives ``text``; None where nothing tried does."""
    stronger: tuple[frozenset[str], ...] = (
        frozenset(),
        names,
        names | {"finite"},
        names | {"finite", "nonneg"},
        frozenset(ASSUMPTIONS),
    )
    for wanted in dict.fromkeys(stronger):
        tried = _meeting(wanted, inputs) if wanted else inputs
        try:
            bench = Workbench(captured.graph, tried, no_grad)
            bench.conditions = dict(conditions)
            replay_recipe(bench, rules, recipe)
        except Inapplicable:
            continue
        except Unsound:
            return tried  # the whole programs are compared with more care
        except Exception:  # the program itself raises on these values
            return None
        if print_graph(bench.graph) == text:
            return tried
    return None


def _meeting(names: Collection[str], inputs: InputSet) -> InputSet:
    """The inputs made to meet preconditions: whole storages, so that inputs that share memory stay consistent."""
    values = inputs.rebuild()
    with torch.no_grad():
        for t in tree_leaves(values):
            if isinstance(t, torch.Tensor) and t.dtype in FLOATING:
                meet(names, flat_storage(t.detach()))
    return InputSet.snapshot(values)
