"""Recipes: drawn at random, as chains, and replayed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from fxmorph.model import Recipe, Rewrite
from fxmorph.programs.graph import calls
from fxmorph.rewriting.claims import Inapplicable
from fxmorph.rewriting.matching import root_operation
from fxmorph.rewriting.workbench import EXPOSE, Workbench
from fxmorph.rules import PROPOSED, Registry, Rule, RuleError

#: How often a recipe ends by exposing what rewrites made.
EXPOSE_SHARE = 0.6
#: How often a rewrite that may copy a value is followed by a write to what it copied: most
#: real aliasing bugs need both.
CHASE_SHARE = 0.5
#: How many rewrites a variant gets, and how often.
LENGTHS = (1, 2, 3, 4, 5, 6)
LENGTH_WEIGHTS = (2, 4, 4, 3, 2, 1)
#: Families that hit what real bugs are made of are drawn more often (docs/rules.md).
FAMILY_WEIGHTS = {
    "mutate": 5.0,
    PROPOSED: 4.0,
    "identity": 2.0,
    "fusion": 1.5,
    "layout": 2.0,
    "reduce": 0.7,
    "dtype": 0.7,
}


def draw_recipe(
    bench: Workbench,
    rules: Registry,
    rng: random.Random,
    avoid: Collection[str] = (),
    favour: Collection[str] = (),
) -> Recipe:
    """Apply random rewrites to the bench; the recipe is what took.  Raises :class:`Unsound`.

    Of the rules in ``favour`` one is tried first in every other draw.
    """
    pool = [r for r in rules if r.id not in avoid]
    wanted = rng.choices(LENGTHS, LENGTH_WEIGHTS)[0]
    original = set(bench.nodes)
    for _ in range(4 * wanted):
        if len(bench.applied) >= wanted:
            break
        here = {op.name for op in bench.ops.values()}
        families: dict[str, list[Rule]] = {}
        for rule in pool:
            if rule.site != "op" or root_operation(rule) in here:
                families.setdefault(rule.family, []).append(rule)
        names = sorted(families)
        family = rng.choices(names, [FAMILY_WEIGHTS.get(f, 1.0) for f in names])[0]
        chosen = rng.sample(families[family], min(len(families[family]), 8))
        if favour and rng.random() < 0.5:
            liked = [r for f in names for r in families[f] if r.id in favour]
            chosen = [*rng.sample(liked, min(len(liked), 2)), *chosen]
        for rule in chosen:
            if _try_rule(bench, rule, rng):
                if rule.site == "value" and rng.random() < CHASE_SHARE:
                    _chase(bench, [r for r in pool if r.site == "late"], rng)
                break
    made = [n.name for n in calls(bench.graph) if n.name not in original and n in bench.profile.specs]
    if bench.applied and made and rng.random() < EXPOSE_SHARE:
        for name in rng.sample(made, min(len(made), rng.randint(1, 2))):
            try:
                bench.expose(Rewrite(EXPOSE, name))
            except Inapplicable:
                continue
    return Recipe(tuple(bench.applied))


def _chase(bench: Workbench, late: list[Rule], rng: random.Random) -> None:
    """Write to the memory that the last rewrite copied or viewed, at some later point."""
    site = bench.applied[-1].site
    for rule in rng.sample(late, min(len(late), 4)):
        if _try_rule(bench, rule, rng, site):
            return


#: How often one step of a chain is tried, each time at another random site.
CHAIN_TRIES = 4


def draw_chain(bench: Workbench, rules: Registry, chain: Sequence[str], rng: random.Random) -> list[str]:
    """Apply rules in the order of ``chain``, each at a random site that takes it; the steps that none took.

    A step is the id of a rule, or a glob over ids, with choices of its scalars: ``reduce_split{k=2}``.
    Raises :class:`Unsound`, and ``RuleError`` for a step that names no rule.
    """
    missed = []
    for step in chain:
        found, choices = chain_step(rules, step)
        tries = [rule for rule in rng.sample(found, min(len(found), 8)) for _ in range(CHAIN_TRIES)]
        if not any(_try_rule(bench, rule, rng, given=choices) for rule in tries):
            missed.append(step)
    return missed


def chain_step(rules: Registry, step: str) -> tuple[list[Rule], dict[str, Any]]:
    """The rules that a step of a chain names, and the choices that it makes; raises ``RuleError``."""
    name, _, rest = step.partition("{")
    try:
        choices = dict(Rewrite.parse(f"x{{{rest}@x").choices) if rest else {}
    except (ValueError, SyntaxError) as error:
        raise RuleError(f"step {step!r} of a chain: {error}") from None
    found = [r for r in rules if fnmatchcase(r.id, name) or fnmatchcase(r.id, f"{PROPOSED}_{name}")]
    if not found:
        raise RuleError(f"step {step!r} of a chain: no rule {name!r}")
    return found, choices


def _try_rule(
    bench: Workbench, rule: Rule, rng: random.Random, site: str = "", given: Mapping[str, Any] | None = None
) -> bool:
    """Apply the rule at a random site, or at ``site``; False where it has none or none took.

    ``given`` are scalars that are not drawn.
    """
    found = [(n, m) for n, m in bench.sites(rule) if not site or n.name == site]
    if not found:
        return False
    node, match = rng.choice(found)
    at = ""
    if rule.site == "late":
        points = bench.late_points(rule, node)
        if not points:
            return False
        at = rng.choice(points).name
    elif rule.site == "value":
        users = [u.name for u in node.users if u.op != "output"]
        if len(node.users) > 1 and users and rng.random() < 0.5:
            at = rng.choice(users)
    drawn = {n: rng.choice(c) for n, c in sorted(rule.scalars.items()) if c is not None}
    choices = tuple((n, (given or {}).get(n, v)) for n, v in drawn.items())
    try:
        bench.apply(rule, Rewrite(rule.id, node.name, at, choices), match)
    except Inapplicable:
        return False
    return True


def replay_recipe(bench: Workbench, rules: Registry, recipe: Recipe) -> None:
    """Apply a recipe exactly; raises :class:`Inapplicable`, :class:`Unsound` or ``RuleError``."""
    for rewrite in recipe.rewrites:
        if rewrite.rule == EXPOSE:
            bench.expose(rewrite)
        else:
            bench.apply(rules[rewrite.rule], rewrite)
