"""Rules that the engine must accept, rules that it must refuse, and every shipped rule on a graph of its own."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from promises import broken, samples
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.judge.case import Variant, check_rewrite
from fxmorph.judge.trial import GraphSubject
from fxmorph.model import Case, CompileConfig, Level, Recipe, Rewrite, Seed, Status, ValuePlan
from fxmorph.programs.graph import calls, function_of, graph_hash, print_graph, read_graph
from fxmorph.programs.inputs import InputSet, spec_of, strided_clone
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rewriting.instances import holds
from fxmorph.rewriting.matching import pattern_of
from fxmorph.rewriting.recipes import replay_recipe
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rewriting.tracing import trace
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Registry, Rule, load_rules

pytestmark = pytest.mark.usefixtures("torch_quiet")
HERE = Path(__file__).parent
#: What torch raises of samples that it has no use for.
REFUSED_BY_TORCH = (RuntimeError, IndexError, TypeError, ValueError)
SHIPPED = list(load_rules())
CASE = Case(Seed("", "module", ""), 1, 0, (ValuePlan.SEED,), CompileConfig.make())


def listed(folder: str) -> dict[str, tuple[Rule, Callable[[], dict[str, Any]], tuple[str, str] | None]]:
    """The rules of a list, each with its witness and the program it needs."""
    of_folder = [r for r in load_rules([HERE / folder]) if Path(r.source).parent == HERE / folder]
    out = {}
    for rule in of_folder:
        module = sys.modules[rule.before.__module__]
        out[rule.id] = (rule, module.WITNESS[rule.id], getattr(module, "PROGRAM", {}).get(rule.id))
    return out


ACCEPT, REFUSE, PEER = listed("accept"), listed("refuse"), listed("peer")
#: Wrong where eager gives NaN on one side only, or raises in the backward pass: no site is found
#: where such a rule could be compared, and so none where it would be applied.
NOT_COMPARED = {
    "wrong_sum_as_mean_times_size", "wrong_variance_of_one_element", "wrong_logarithm_of_square",
    "wrong_root_of_product", "wrong_power_through_the_logarithm", "wrong_xlogy_as_a_product",
    "wrong_gradient_needs_what_was_overwritten", "wrong_gradient_of_a_norm_at_zero",
    "wrong_gradient_of_a_root_of_a_square",
}  # fmt: skip


def program_of(rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> fx.Graph:
    """A graph of which ``before`` is the middle, or one value that is used twice."""
    graph = fx.Graph()
    given = {n: (graph.placeholder(n), strided_clone(t)) for n, t in tensors.items()}
    if rule.site != "op":
        first = graph.call_method("clone", (next(iter(given.values()))[0],))
        graph.output((graph.call_method("clone", (first,)),))
        return graph
    with torch.no_grad():
        out, _ = trace(rule.before, graph, given, scalars)
    graph.output((out.node,))
    return graph


def rewritten(rule: Rule, bench: Workbench, rng: random.Random) -> bool:
    """Apply the rule at the first site where it takes; raises ``Unsound``."""
    for site in [node.name for node, _ in bench.sites(rule)]:
        points = [p.name for p in bench.late_points(rule, bench.nodes[site])] if rule.site == "late" else [""]
        choices = tuple((n, rng.choice(c)) for n, c in sorted(rule.scalars.items()) if c is not None)
        for at in points:
            try:
                bench.apply(rule, Rewrite(rule.id, site, at, choices))
                return True
            except Inapplicable:
                continue
    return False


def eager_check(rule: Rule, bench: Workbench, before: str) -> Any:
    """``check_rewrite`` on what the bench became."""

    def subject(text: str) -> GraphSubject:
        return GraphSubject(function_of(text), {ValuePlan.SEED: bench.inputs}, lambda c: c)

    text = print_graph(bench.graph)
    variant = Variant(
        subject(before), subject(text), Recipe(tuple(bench.applied)), text, graph_hash(bench.graph),
        bench.kept, all(level.bitwise for level in bench.levels),
    )  # fmt: skip
    return check_rewrite(CASE, variant, Clock())


def outcome(entry: tuple[Rule, Callable[[], dict[str, Any]], tuple[str, str] | None]) -> str:
    """``refused``, ``inconclusive``, ``accepted``, or ``not applied``."""
    rule, witness, program = entry
    values = witness()
    tensors = {n: v for n, v in values.items() if n in rule.args}
    scalars = {n: v for n, v in values.items() if n not in rule.args}
    graph = read_graph(program[0]) if program else program_of(rule, tensors, scalars)
    before = print_graph(graph)
    bench = Workbench(graph, InputSet.snapshot(list(tensors.values())), no_grad=False)
    try:
        if program:
            site, _, at = program[1].partition(">")
            bench.apply(rule, Rewrite(rule.id, site, at))
        elif not rewritten(rule, bench, random.Random(0)):
            return "not applied"
    except Unsound:
        return "refused"
    except Inapplicable as error:
        return f"not applied: {error}"
    result = eager_check(rule, bench, before)
    if result is None:
        return "accepted"
    return "refused" if result.status is Status.UNSOUND_REWRITE else f"{result.status}: {result.reason}"


def applies(rule: Rule, given: dict[str, Any]) -> bool:
    """Whether the rule holds for these arguments."""
    specs = {n: spec_of(t) for n, t in given.items() if n in rule.args}
    return holds(rule, specs, {n: v for n, v in given.items() if n not in rule.args})


@pytest.mark.parametrize("name", REFUSE)
def test_a_wrong_rule_is_refused(name: str) -> None:
    result = outcome(REFUSE[name])
    assert result == "refused" or (name in NOT_COMPARED and result != "accepted")


@pytest.mark.parametrize("name", REFUSE)
def test_a_wrong_rule_breaks_a_promise_in_eager(name: str) -> None:
    rule, witness, _ = REFUSE[name]
    assert applies(rule, witness())
    assert broken(rule, witness())


@pytest.mark.parametrize("name", ACCEPT)
def test_a_right_rule_is_accepted(name: str) -> None:
    assert outcome(ACCEPT[name]) == "accepted"


@pytest.mark.parametrize("name", ACCEPT)
def test_a_right_rule_keeps_its_promises_in_eager(name: str) -> None:
    rule, witness, _ = ACCEPT[name]
    assert applies(rule, witness())
    assert broken(rule, witness()) == ""
    compared = 0
    for given in samples(rule, random.Random(name), 8):
        try:
            assert broken(rule, given) == ""
            compared += 1
        except REFUSED_BY_TORCH:
            continue
    assert compared


@pytest.mark.parametrize("name", PEER)
def test_a_rule_of_the_peer_is_what_is_said_of_it(name: str) -> None:
    rule, witness, _ = PEER[name]
    expected = sys.modules[rule.before.__module__].EXPECTED[name]
    assert outcome(PEER[name]) == {"refuted": "refused", "proved": "accepted"}[expected]
    assert bool(broken(rule, witness())) == (expected == "refuted")


def test_the_lists_are_long_enough_to_mean_something() -> None:
    assert len(REFUSE) >= 80
    assert len(ACCEPT) >= 120
    assert len(PEER) >= 16
    for name, (rule, _, _) in {**ACCEPT, **REFUSE, **PEER}.items():
        assert rule.doc, name
    assert REFUSE.keys() >= NOT_COMPARED


# -- shipped rules -------------------------------------------------------------

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 2e-4, torch.float64: 1e-9}


def assert_same(old: torch.Tensor, new: torch.Tensor, claim: Level) -> None:
    assert new.shape == old.shape
    if claim.bitwise or not old.is_floating_point():
        assert torch.equal(torch.nan_to_num(old + 0), torch.nan_to_num(new.to(old.dtype) + 0))
        assert torch.equal(old.isnan(), new.isnan())
        return
    tolerance = TOLERANCE.get(old.dtype, 1e-5)
    scale = max(1.0, float(old.abs().nan_to_num(0, 0, 0).max())) if old.numel() else 1.0
    torch.testing.assert_close(new.to(old.dtype), old, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def applied(rule: Rule) -> tuple[Workbench, fx.Graph] | None:
    """The rule applied to samples of its own until it takes once."""
    rng = random.Random(rule.id)
    for _ in range(30):
        sample = sample_arguments(rule, rng)
        if sample is None and rule.site != "op":  # of more dimensions than samples have
            sample = {n: torch.arange(24.0).reshape(2, 3, 4) for n in rule.args}, {}
        if sample is None:
            return None
        tensors, scalars = sample
        if "nonneg" in rule.assumes:
            tensors = {n: t.abs() for n, t in tensors.items()}
        try:
            graph = program_of(rule, tensors, scalars)
            bench = Workbench(graph, InputSet.snapshot(list(tensors.values())), no_grad=True)
        except Inapplicable:
            continue
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue  # a sample that the operation itself refuses
        if rewritten(rule, bench, rng):
            return bench, graph
    return None


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda r: r.id)
def test_a_shipped_rule_applies_to_its_own_form_and_replays(rule: Rule) -> None:
    made = applied(rule)
    assert made is not None, "no sample on which the rule can be applied"
    bench, graph = made
    with torch.no_grad():
        torch.manual_seed(2)
        (old,) = function_of(print_graph(graph))(*bench.inputs.rebuild())
        torch.manual_seed(2)
        (new,) = function_of(print_graph(bench.graph))(*bench.inputs.rebuild())
    assert_same(old, new, rule.claim)
    registry = Registry()
    registry.add(rule)
    recipe = Recipe.parse(str(Recipe(tuple(bench.applied))))
    assert recipe.rewrites == tuple(bench.applied)
    again = Workbench(graph, bench.inputs, no_grad=True)
    replay_recipe(again, registry, recipe)
    assert print_graph(again.graph) == print_graph(bench.graph)


@pytest.mark.parametrize("rule", [r for r in SHIPPED if r.site == "op"], ids=lambda r: r.id)
def test_a_shipped_rule_has_a_pattern(rule: Rule) -> None:
    assert pattern_of(rule) is not None


def test_shipped_rules_say_what_they_do_and_belong_to_a_family() -> None:
    families = {"algebra", "dtype", "fusion", "identity", "layout", "mutate", "operator", "reduce"}
    for rule in SHIPPED:
        assert len(rule.doc.split()) >= 8, rule.id
        assert rule.family in families
        assert Path(rule.source).stem.startswith(rule.family), rule.id
        assert rule.targets, rule.id
    assert {r.family for r in SHIPPED} == families


def test_there_are_at_least_sixty_rules_and_all_sites_are_used() -> None:
    assert len(SHIPPED) >= 60
    assert {r.site for r in SHIPPED} == {"op", "value", "late"}


def test_a_shipped_rule_changes_something() -> None:
    unchanged = []
    for rule in random.Random(0).sample(SHIPPED, 60):
        made = applied(rule)
        if made is not None and graph_hash(made[0].graph) == graph_hash(made[1]):
            unchanged.append(rule.id)
    assert unchanged == []


def test_every_rewritten_graph_still_computes() -> None:
    for rule in random.Random(1).sample([r for r in SHIPPED if r.site == "op"], 20):
        made = applied(rule)
        assert made is None or calls(made[0].graph), rule.id
