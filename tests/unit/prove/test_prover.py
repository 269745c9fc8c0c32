"""The ladder of methods for one instance, what is kept of it on disk, and rewrites that are proved."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.model import Level, Rewrite
from fxmorph.programs.graph import read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.prove.certificates import Certificates, instance_key, rule_hash
from fxmorph.prove.prover import Prover, in_terms
from fxmorph.prove.rule_level import prove_rule
from fxmorph.prove.terms.execution import Terms
from fxmorph.rewriting.claims import Unsound
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Rule

pytestmark = pytest.mark.usefixtures("torch_quiet")
Program = Callable[..., torch.Tensor]
BUDGET = 300_000
REAL, BITS, MODULO = Level.EXACT_REAL, Level.BIT_EXACT, Level.BIT_EXACT_MOD_ZERO_SIGN


def instance(before: Program, after: Program, *tensors: torch.Tensor, claim: Level = REAL, **said: Any) -> Instance:
    names = before.__code__.co_varnames[: before.__code__.co_argcount]
    args = dict.fromkeys(names, said.pop("shape", "..."))
    scalars = said.pop("given", {})
    said.setdefault("dtypes", ("float64", "float32", "float16", "int64", "int32", "int8"))
    args = {n: s for n, s in args.items() if n not in scalars}
    rule = Rule("r", before, after, args, "r", claim=claim, scalars=dict.fromkeys(scalars), **said)
    return Instance(rule, dict(zip(args, tensors, strict=True)), scalars)


def x(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(-1.9, 1.7, torch.Size(shape).numel()).reshape(shape).to(dtype)


LADDER: dict[str, tuple[Program, Program, torch.dtype, Level, str]] = {
    "moves": (lambda x: x.t().t(), lambda x: x.clone(), torch.float32, Level.INDEX_EXACT, "LABEL"),
    "same term": (lambda x: x.t().exp().t(), lambda x: x.exp(), torch.float32, BITS, "TERM"),
    "exhaustive": (lambda x: x * 2, lambda x: x + x, torch.float16, BITS, "EXHAUSTIVE"),
    "z3": (lambda x: x * 2, lambda x: x + x, torch.float32, BITS, "Z3-FP"),
    "z3, sign of zero": (lambda x: x + 0.0, lambda x: x.clone(), torch.float32, MODULO, "Z3-FP"),
    "z3 on integers": (lambda x: -x, lambda x: ~x + 1, torch.int32, BITS, "Z3-BV"),
    "precondition": (lambda x: x - x, lambda x: torch.zeros_like(x), torch.float32, Level.UNDER_PRECONDITION, "Z3-FP"),
    "sums": (lambda x: x.sum(0).sum(0), lambda x: x.sum(), torch.float32, REAL, "PIT"),
    "sums of one layout": (lambda x: x.sum(1), lambda x: x.t().contiguous().sum(0), torch.float32, REAL, "TERM"),
}  # fmt: skip


@pytest.mark.parametrize("name", LADDER)
def test_each_method_yields_its_level(name: str) -> None:
    before, after, dtype, level, method = LADDER[name]
    made = Prover(budget=BUDGET).prove(instance(before, after, x(5, 5, dtype=dtype)))
    assert made.proof.level is level, made
    assert made.proof.method.startswith(method)
    assert made.proof.scope == "one shape" and not made.counterexample


def test_refuted_with_what_eager_gave() -> None:
    made = Prover(budget=BUDGET).prove(instance(lambda x: x.abs(), lambda x: x, x(3)))
    assert made.proof.level is Level.REFUTED and made.proof.method == "FALSIFY-ONLY"
    assert "before gives 0." in made.counterexample and "after gives -0." in made.counterexample


def test_refuted_by_a_value_that_the_solver_found() -> None:
    """No list of values has 1234.5; the solver does, and eager confirms it."""
    rare = instance(lambda x: x.clone(), lambda x: torch.where(x == 1234.5, 7.0, x), x(3), claim=BITS)
    made = Prover(budget=BUDGET).prove(rare)
    assert made.proof.level is Level.REFUTED and "1234.5" in made.counterexample
    assert made.obligations


def test_a_value_in_memory_that_is_overwritten_later() -> None:
    def before(x: torch.Tensor) -> torch.Tensor:
        out = torch.where(x == 1234.5, 7.0, 1.0)
        x.zero_()
        return out

    def after(x: torch.Tensor) -> torch.Tensor:
        x.zero_()
        return torch.ones_like(x)

    made = Prover(budget=BUDGET).prove(instance(before, after, x(3), claim=BITS))
    assert made.proof.level is Level.REFUTED


HIDDEN: dict[str, Program] = {
    "equal": lambda x: x * 3 if torch.equal(x, torch.full_like(x, 1234.5)) else x * 2,
    "tolist": lambda x: x * 3 if 1234.5 in x.tolist() else x * 2,
    "numpy": lambda x: x * 3 if (x.numpy() == 1234.5).any() else x * 2,
    "nonzero": lambda x: x * 3 if (x == 1234.5).nonzero().shape[0] else x * 2,
    "mask": lambda x: x * 3 if x[x == 1234.5].numel() else x * 2,
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_depends_on_values_unseen_is_not_shown(name: str) -> None:
    made = Prover(budget=BUDGET).prove(instance(HIDDEN[name], lambda x: x * 2, x(3), claim=BITS))
    assert made.proof.level is Level.UNKNOWN


def test_unknown_is_no_success() -> None:
    unknown = instance(lambda x: x.nonzero().shape[0] * x, lambda x: x.shape[0] * x, x(3))
    rare = replace(unknown, tensors={"x": x(3) + 5})
    prover = Prover(budget=BUDGET)
    assert prover.prove(instance(HIDDEN["mask"], lambda x: x * 2, x(3))).reason
    assert prover.prove(rare).proof.level in (Level.UNKNOWN, Level.REFUTED)
    rule = instance(HIDDEN["tolist"], lambda x: x * 2, x(3), shape="n", dtypes=("float32",)).rule
    assert prove_rule(rule, "float32", prover).level is Level.REFUTED  # its text has the number
    untold = replace(rule, before=lambda x: x * 3 if x.tolist()[:1] == [math.pi * 371.5] else x * 2)
    proof = prove_rule(untold, "float32", prover)
    assert proof.level is Level.UNKNOWN and "tolist" in proof.reason


def test_a_wrong_model_ends_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that collide are not believed where eager says otherwise."""
    plain = Terms._pointwise

    def collides(self: Terms, call: Any) -> torch.Tensor:
        return call.shadow(call.arguments["self"]).clone() if call.name == "add" else plain(self, call)

    sides: tuple[Program, Program] = (lambda x: x + 0.0, lambda x: x.clone())
    monkeypatch.setattr(Terms, "_pointwise", collides)
    made = Prover(budget=BUDGET).prove(instance(*sides, x(40)))
    assert made.proof.level is Level.UNKNOWN and "the model is wrong" in made.reason


# -- certificates --------------------------------------------------------------


def shift(x: torch.Tensor, s: float) -> torch.Tensor:
    return x + s


def unshift(x: torch.Tensor, s: float) -> torch.Tensor:
    return s + x


def typed_in(text: str) -> Program:
    """A function without source text."""
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope["f"]


def closing(value: float) -> Program:
    return lambda x: x * value


def test_keys_hold_what_the_outcome_depends_on() -> None:
    def key(t: torch.Tensor, s: float = 1.0, budget: int = BUDGET, **said: Any) -> str:
        return instance_key(instance(shift, unshift, t, given={"s": s}, **said), budget)

    def of(before: Program, t: torch.Tensor) -> str:
        return instance_key(instance(before, lambda x: x, t), BUDGET)

    i = torch.tensor([0, 1])
    keys = [
        key(x(2, 3)), key(x(3, 2)), key(x(3, 2).t()), key(x(2, 3).half()), key(x(2, 3), 2.0), key(x(2, 3), 1),
        key(x(2, 3), -1.0), key(x(2, 3), 0.0), key(x(2, 3), -0.0), key(x(2, 3), budget=1), key(x(2, 3), claim=BITS),
        key(x(2, 3), assumes=("finite",)), key(i), key(i, mixed=True), key(i + 1, mixed=True),
        of(lambda x: x * 2, x(2)), of(lambda x: x * 3, x(2)), of(closing(2.0), x(2)), of(closing(3.0), x(2)),
        of(typed_in("def f(x): return x.sin()"), x(2)), of(typed_in("def f(x): return x.cos()"), x(2)),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert key(x(2, 3)) == key(x(2, 3) + 1)
    assert key(i) == key(i + 1)


def test_rules_without_text_are_told_apart() -> None:
    sine, cosine = (typed_in(f"def f(x): return x.{name}()") for name in ("sin", "cos"))
    hashes = {rule_hash(instance(f, f, x(2)).rule) for f in (sine, cosine)}
    assert len(hashes) == 2


def test_kept_on_disk(tmp_path: Path) -> None:
    given = instance(lambda x: x * 2, lambda x: x + x, x(3))
    first, cached = Prover(Certificates(tmp_path), BUDGET).proved(given)
    assert not cached
    again, cached = Prover(Certificates(tmp_path), BUDGET).proved(given)
    assert cached and again == first
    file = tmp_path / first.key[:2] / f"{first.key}.json"
    good = json.loads(file.read_text())
    for damaged in ("", "{", "[]", "{}", "null", '{"key": 3}', json.dumps({**good, "key": "another"}),
                    json.dumps({**good, "proof": {"level": "SURE"}})):  # fmt: skip
        file.write_text(damaged)
        made, cached = Prover(Certificates(tmp_path), BUDGET).proved(given)
        assert not cached and replace(made, seconds=0) == replace(first, seconds=0), damaged


def test_a_folder_that_cannot_be_written_to_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prover = Prover(Certificates(tmp_path / "file" / "proofs"), BUDGET)
    given = instance(lambda x: x * 2, lambda x: x + x, x(3))
    assert prover.prove(given).proof.level is BITS
    assert prover.proved(given)[1]


def test_ship(tmp_path: Path) -> None:
    prover = Prover(budget=BUDGET)
    made = prover.prove(instance(lambda x: x * 2, lambda x: x + x, x(3)))
    prover.certificates.ship([made.key, "absent"], tmp_path)
    (obligation,) = made.obligations
    names = {p.name for p in tmp_path.iterdir()}
    assert {f"{made.key}.json", f"{obligation}.json", f"{obligation}.0.smt2"} <= names
    assert "(check-sat" in (tmp_path / f"{obligation}.0.smt2").read_text()
    assert json.loads((tmp_path / f"{made.key}.json").read_text())["proof"]["level"] == "BIT_EXACT"


@pytest.mark.parametrize("name", ["z3", "sums", "precondition"])
def test_two_provers_agree(name: str) -> None:
    before, after, dtype, _, _ = LADDER[name]
    made = []
    for _ in range(2):
        prover = Prover(budget=BUDGET)
        own = prover.prove(instance(before, after, x(3, 3, dtype=dtype)))
        parts = [prover.certificates.get(key) for key in own.obligations]
        made.append([replace(c, seconds=0.0) for c in (own, *parts) if c is not None])
    assert made[0] == made[1]


def test_both_sides_in_terms_see_what_is_written() -> None:
    made = in_terms(instance(lambda x: x.mul_(2), lambda x: x * 2, x(3)), layouts=True)
    assert not made.equal and torch.equal(*made.pairs[0][:2])


# -- rewrites ------------------------------------------------------------------

GRAPH = """
def forward(x):
    y = x.clone()
    z = torch.add(y, 0.0)
    return (z,)
"""


def bench(rule: Rule) -> tuple[Workbench, Rewrite]:
    made = Workbench(read_graph(GRAPH), InputSet.snapshot([x(4)]), True, Prover(budget=BUDGET))
    (site,) = [node.name for node, _ in made.sites(rule)]
    return made, Rewrite(rule.id, site)


def graph_rule(before: Program, after: Program, claim: Level) -> Rule:
    return Rule("r", before, after, {"x": "..."}, "r", claim=claim, dtypes=("float32",))


def test_rewrites_are_proved() -> None:
    rule = graph_rule(lambda x: torch.add(x, 0.0), lambda x: torch.clone(x), REAL)
    made, rewrite = bench(rule)
    made.apply(rule, rewrite)
    (proof,) = made.proofs
    assert proof.proof.level is MODULO and proof.proof.method == "Z3-FP" and not proof.cached
    assert made.levels == [REAL]


def test_a_refuted_rewrite_is_unsound() -> None:
    """The site's values are not zero, and the prover's are."""
    rule = graph_rule(lambda x: torch.add(x, 0.0), lambda x: torch.clone(x), BITS)
    made, rewrite = bench(rule)
    with pytest.raises(Unsound, match="refuted"):
        made.apply(rule, rewrite)
    assert not made.proofs and not made.applied


def test_what_is_not_shown_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Prover(budget=BUDGET)
    rule = graph_rule(lambda x: torch.add(x, 0.0), lambda x: torch.clone(x), REAL)
    made, rewrite = bench(rule)

    def proved(given: Instance) -> Any:
        own = unknown.prove(given)
        return replace(own, proof=replace(own.proof, level=Level.UNKNOWN)), False

    monkeypatch.setattr(made.prover, "proved", proved)
    made.apply(rule, rewrite)
    assert [p.proof.level for p in made.proofs] == [Level.TESTED]
    assert made.levels == [Level.TESTED]


def test_a_tie_with_a_number_of_the_program_is_tried() -> None:
    """Random elements of a field are never 1234.5."""

    def before(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.where(x == 1234.5, 7.0, x) + y) + x

    made = Prover(budget=BUDGET).prove(instance(before, lambda x, y: (x + x) + y, x(7), x(7) + 2))
    assert made.proof.level in (Level.UNKNOWN, Level.REFUTED)
