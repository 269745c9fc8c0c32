"""Wrong rules made of the shipped ones: none is proved, and each repair of the prover is seen to be needed.

The default run tries a few; ``-m slow`` takes the repairs out one by one, each with what else would see the same.
"""

from __future__ import annotations

import importlib
import itertools
import random
from collections import Counter
from typing import Any

import pytest

from fxmorph.prove.field.elements import Val
from fxmorph.prove.field.meanings import MEANINGS, Given
from fxmorph.prove.fuzz.fuzz_worker import Judged, MakeMutant, tried
from fxmorph.prove.fuzz.mutants import Family, draws, mutant
from fxmorph.rules import load_rules

pytestmark = [
    pytest.mark.usefixtures("torch_quiet"),
    pytest.mark.filterwarnings("ignore:var..:UserWarning"),
]
RULES = load_rules()
BUDGET = 300_000


def test_no_wrong_rule_of_a_few_is_proved() -> None:
    some = [rule for rule in RULES if rule.id.startswith(("algebra_", "layout_", "identity_"))]
    jobs = (MakeMutant(rule.id, dtype, 3, number) for rule, dtype, number in itertools.islice(draws(some, 3), 12))
    done = [tried(job, RULES, BUDGET) for job in jobs]
    assert [f"{t.job.rule}: {t.what}: {t.witness}" for t in done if t.judged is Judged.PROVED] == []
    assert Counter(t.judged for t in done)[Judged.REFUTED] >= 4


@pytest.mark.parametrize("family", Family)
def test_each_family_makes_rules_that_run(family: Family) -> None:
    rng = random.Random(1)
    fit = 0
    for rule in RULES:
        made = mutant(rule, rule.dtypes[0], rng, family)
        if made is not None:
            fit += 1
            assert made.rule.id != rule.id and made.family is family and "def before" in made.text
    assert fit >= 8


def test_the_draw_of_a_mutant_depends_on_its_numbers_alone() -> None:
    one, two = ([mutant(RULES["algebra_cube_as_mul"], "float32", random.Random(n)) for n in range(8)] for _ in "12")
    assert [m and (m.what, m.text) for m in one] == [m and (m.what, m.text) for m in two]
    assert len({m.what for m in one if m is not None}) > 3


#: What shows numbers and sizes of a rule's text to the draws.
TOLD: list[tuple[str, Any]] = [
    ("fxmorph.prove.falsify.told_values", lambda rule: ()),
    ("fxmorph.prove.argument_draws.told_numbers", lambda rule: ()),
    ("fxmorph.prove.argument_draws.told_sizes", lambda rule: ()),
]  # fmt: skip
#: Sizes as they were drawn: small ones.
SMALL: list[tuple[str, Any]] = [
    ("fxmorph.prove.argument_draws._each_alone", lambda rule: []),
    ("fxmorph.prove.argument_draws.LARGE_POOLS", ((3, 5), (2,))),
]  # fmt: skip
PLAIN_LAYOUTS: list[tuple[str, Any]] = [
    ("fxmorph.prove.argument_draws._LAYOUTS", ("plain",)), ("fxmorph.prove.argument_draws._OTHER_LAYOUTS", ("plain",)),
    ("fxmorph.rewriting.samples._further_in", lambda t, rng: t),
]  # fmt: skip


def smooth_softplus(given: Given) -> Val:
    """The curve alone, as if there were no threshold."""
    one = given.m.fraction(1)
    return given.m.log(given.m.add(given.m.exp(given.val("self")), one))


#: The repairs that a family of wrong rules needs.
REPAIRS: dict[Family, list[tuple[str, Any]]] = {
    Family.INTEGERS: [("fxmorph.prove.field.identity_testing.Fielded.wraps", property(lambda self: False)), *TOLD],
    Family.BRANCH: [
        ("fxmorph.prove.field.pointwise._softplus", smooth_softplus),
        ("fxmorph.prove.field.meanings.Given.unread", lambda self: []),
        *TOLD,
    ],
    Family.CONSTANT: [
        ("fxmorph.prove.field.meanings.Given.wide", property(lambda self: False)),
        ("fxmorph.prove.falsify.REAL_TOLERANCE", 1e-4),
        *TOLD,
    ],
    Family.LANE: [("fxmorph.prove.terms.execution.depends_on_lane", lambda *a: False), *SMALL, *PLAIN_LAYOUTS],
    Family.MIXED: [("fxmorph.prove.argument_draws.INTEGERS", ((0, 1),)), *TOLD],
    Family.OFFSET: PLAIN_LAYOUTS,
    Family.ALIAS: [("fxmorph.prove.argument_draws.sharing", lambda *a: None)],
    Family.TEXT: [
        ("fxmorph.prove.sizes.layout_proof._asks_for_identity", lambda side: ""),
        ("fxmorph.prove.sizes.layout_proof._WITHOUT_TYPES", {}),
        ("fxmorph.prove.argument_draws.asks_for_text", lambda rule: False),
        *TOLD, *SMALL,
    ],
    Family.SIZE: [*TOLD, *SMALL],
    Family.TIE: [
        ("fxmorph.prove.field.identity_testing.Fielded.shown", property(lambda self: bool(self.equal))), *TOLD,
    ],
    Family.GUARD: [
        ("fxmorph.prove.field.choice._of_arguments_only", lambda given: None),
        ("fxmorph.prove.smt.model_real._only_given", lambda ctx, node: None),
        *TOLD,
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", REPAIRS)
def test_without_its_repair_wrong_rules_of_a_family_are_proved(family: Family, monkeypatch: Any) -> None:
    for path, instead in REPAIRS[family]:
        owner, _, name = path.rpartition(".")
        try:
            home = importlib.import_module(owner)
        except ModuleNotFoundError:
            module, _, cls = owner.rpartition(".")
            home = getattr(importlib.import_module(module), cls)
        old = getattr(home, name)
        monkeypatch.setattr(home, name, instead)
        for registered in [key for key, meaning in MEANINGS.items() if meaning is old]:
            monkeypatch.setitem(MEANINGS, registered, instead)
    some = [rule for rule in RULES if rule.site == "op" and len(rule.args) >= (2 if family is Family.ALIAS else 1)]
    jobs = (MakeMutant(rule.id, dtype, 5, number, family) for rule, dtype, number in draws(some, 5))
    for done, job in enumerate(jobs):
        found = tried(job, RULES, BUDGET)
        if found.judged is Judged.PROVED:
            return
        assert done < 400, "no wrong rule of the family is proved without the repair"
