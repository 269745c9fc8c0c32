"""No decision is taken from a sentence: with every sentence replaced by its code all verdicts are the same.

And what releases without codes stored has those that its words stand for.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.clock import Clock
from fxmorph.core.records import from_json, to_json
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.ladder import Climbed
from fxmorph.judge.numeric import Comparison
from fxmorph.judge.trial import keeps_casts
from fxmorph.model import (
    AGREES,
    Case,
    CaseResult,
    CompileConfig,
    Level,
    Status,
    ValuePlan,
    Verdict,
    VerdictCode,
    differs,
)
from fxmorph.propose.gate.rule_gate import judge_rule
from fxmorph.propose.language.sameness import Known
from fxmorph.propose.proposal import TOO_LONG, Judged, Outcome, RuleProposal, Task, read_proposal
from fxmorph.prove.certificates import Certificate, Certificates, ProofCode
from fxmorph.prove.falsify import Contradiction, Counterexample
from fxmorph.prove.field.identity_testing import Fielded
from fxmorph.prove.prover import Prover, Shown
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rules import Registry, Rule
from fxmorph.triage.investigate import as_found

pytestmark = pytest.mark.usefixtures("torch_quiet")
#: Records and their sentences.
SENTENCES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (Verdict, ("reason",)), (Comparison, ("reason",)), (Climbed, ("reason",)), (CaseResult, ("reason",)),
    (Counterexample, ("what", "values", "before", "after")), (Shown, ("reason",)), (Fielded, ("reason",)),
    (Certificate, ("reason",)), (RuleProof, ("reason", "counterexample")),
)  # fmt: skip


@contextmanager
def codes_alone() -> Iterator[None]:
    """Records made here say their code, or ``-``, where they would say a sentence."""
    made: list[int] = []

    def without(made_as: Callable[..., None], names: tuple[str, ...]) -> Callable[..., None]:
        @functools.wraps(made_as)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            made_as(self, *args, **kwargs)
            for name in names:
                said = getattr(self, name)
                if said:
                    made.append(1)
                    object.__setattr__(self, name, () if name == "values" else str(getattr(self, "code", "")) or "-")

        return init

    with pytest.MonkeyPatch.context() as patch:
        for cls, names in SENTENCES:
            patch.setattr(cls, "__init__", without(cls.__init__, names))  # type: ignore[misc]
        yield
    assert made, "nothing was said at all"


def same_both_ways(decide: Callable[[], Any]) -> Any:
    """What ``decide`` gives, with sentences and without."""
    with_sentences = decide()
    with codes_alone():
        assert decide() == with_sentences
    return with_sentences


def decided(verdicts: list[Verdict]) -> list[tuple[Any, ...]]:
    return [(v.status, v.kind, v.slot, v.plan, v.far, v.code) for v in verdicts]


# -- verdicts ----------------------------------------------------------------------


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def written_twice(x: torch.Tensor, at: int) -> torch.Tensor:
    return torch.zeros(3).index_put((torch.tensor([0, 0]),), x[at : at + 2])


X, WHOLE, NAN = draw(40, 9), torch.arange(12.0), torch.tensor([float("nan"), 1.0, 2.0])
#: What eager and what compiled code computes of the inputs, and the code of the first verdict.
STAND_INS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any], VerdictCode]] = {
    "another number": (lambda x: x.exp(), lambda x: x.exp() * 1.01, [X], VerdictCode.OUTSIDE_ENVELOPE),
    "exact arithmetic": (lambda x: x + 1, lambda x: x + 1.5, [WHOLE], VerdictCode.EXACT_ARITHMETIC),
    "casts elided": (
        lambda x: (x * 1.1).bfloat16().float(), lambda x: x * 1.1, [draw(999)], VerdictCode.CAST_ELIDED
    ),
    "another integer": (lambda x: x * 2, lambda x: x * 2 + 1, [torch.arange(4)], VerdictCode.UNEQUAL),
    "the sign of zero": (lambda x: x * 0.0, lambda x: x.abs() * 0.0, [X], VerdictCode.ZERO_SIGN),
    "not finite": (lambda x: x + 1, lambda x: x / 0, [X + 9], VerdictCode.FINITENESS),
    "NaN among the inputs": (lambda x: x.relu(), lambda x: x.nan_to_num() + 9, [NAN], VerdictCode.NONFINITE_INPUTS),
    "a tie": (
        lambda x: (x.softmax(-1) > 0.1).sum(), lambda x: (x.softmax(-1) > 0.2).sum(), [X], VerdictCode.UNEQUAL
    ),
    "one place twice": (
        lambda x: written_twice(x, 0), lambda x: written_twice(x, 1), [draw(5)], VerdictCode.DUPLICATE_INDICES
    ),
    "boundaries in no order": (
        lambda x: torch.bucketize(x, x.flip(0)), lambda x: torch.bucketize(x, x.flip(0)) + 1, [WHOLE],
        VerdictCode.UNORDERED_BOUNDARIES,
    ),
    "another stride": (lambda x: x.t().clone(), lambda x: x.t().contiguous(), [X], VerdictCode.PLAIN),
    "size 1": (
        lambda x: x.as_strided((4, 1), (1, 1)), lambda x: x.as_strided((4, 1), (1, 4)), [draw(4)],
        VerdictCode.ONE_SIZED_STRIDE,
    ),
    "a number": (
        lambda x: torch.full((2,), float(x.sum())), lambda x: torch.full((2,), float(x.sum()) + 1), [draw(4)],
        VerdictCode.NUMBER_TAKEN,
    ),
    "an exact number": (
        lambda x: float(x.sum()), lambda x: float(x.sum()) + 1, [WHOLE], VerdictCode.EXACT_ARITHMETIC,
    ),
    "a text": (lambda x: "one", lambda x: "other", [WHOLE], VerdictCode.UNEQUAL),
}  # fmt: skip


@pytest.mark.parametrize("name", STAND_INS)
def test_verdicts_are_decided_without_sentences(name: str, judged: Callable[..., list[Verdict]]) -> None:
    eager, compiled, inputs, code = STAND_INS[name]
    found = same_both_ways(lambda: decided(judged(eager, compiled, inputs)))
    assert (found[0][-1] if found else VerdictCode.PLAIN) is code


def elides_casts(fn: Any, config: CompileConfig) -> Callable[..., Any]:
    """A compiler that leaves out the casts of a seed, and keeps those that it is tried on."""
    return fn if fn.__name__ == "pair" else lambda x: x * 1.1


ELIDING = "def make_inputs(): return [torch.randn(99)]\ndef fn(x): return (x * 1.1).to(torch.bfloat16).float()\n"


def case_at(folder: Path, text: str, backend: str) -> Case:
    (folder / "seed.py").write_text("import torch\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    return Case(seed, 0, 0, (ValuePlan.SEED, ValuePlan.EXACT), CompileConfig.make(backend))


def told(result: CaseResult) -> tuple[Any, ...]:
    rest = (result.status, result.kinds, result.stage, result.ladder, result.inductor)
    return (*rest, decided(list(result.verdicts)))


def test_elided_casts_are_held_against_a_compiler_that_was_told_to_keep_them(
    tmp_path: Path, rules: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxmorph.judge.trial.compile_callable", elides_casts)
    case = case_at(tmp_path, ELIDING, "inductor")

    def decide() -> tuple[Any, ...]:
        keeps_casts.cache_clear()
        got = judge_case(case, rules, Clock())
        return *told(got), as_found(case, got, rules, Clock()).check

    try:
        status, *_, inductor, _, check = same_both_ways(decide)
    finally:
        keeps_casts.cache_clear()
    assert (status, inductor) == (Status.FINDING, (("emulate_precision_casts", True),))
    assert check == {"exact": False, "rtol": 1e-5, "atol": 1e-6}


@pytest.mark.parametrize(
    ("off", "text", "exact"),
    [
        (0.5, "def make_inputs(): return [torch.arange(4.)]\ndef fn(x): return x + 1\n", True),
        (0.5, "def make_inputs(): return [torch.randn(9)]\ndef fn(x): return x.exp()\n", False),
    ],
)
def test_tolerances_of_scripts_hang_on_codes(
    off: float, text: str, exact: bool, tmp_path: Path, rules: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fxmorph.judge.trial.compile_callable", lambda fn, config: lambda *args: fn(*args) + off
    )
    case = case_at(tmp_path, text, "aot_eager")

    def decide() -> tuple[Any, ...]:
        got = judge_case(case, rules, Clock())
        return *told(got), as_found(case, got, rules, Clock()).check

    status, *_, check = same_both_ways(decide)
    assert (status, check["exact"]) == (Status.FINDING, exact)


def test_rows_of_a_ladder_are_codes() -> None:
    assert not differs(AGREES) and not differs("clean") and differs("value")


# -- proofs ------------------------------------------------------------------------


def rule(before: Any, after: Any, claim: Level, args: dict[str, str] | None = None, **said: Any) -> Rule:
    said.setdefault("dtypes", ("float32",))
    return Rule("r", before, after, args or {"x": "m n"}, "r", claim=claim, **said)


RULES: dict[str, tuple[Rule, str, ProofCode, Contradiction]] = {
    "bits": (
        rule(lambda x: x / 3, lambda x: x * (1 / 3), Level.BIT_EXACT), "float32", ProofCode.PLAIN, Contradiction.BITS
    ),
    "the sign of zero": (
        rule(lambda x: x + 0.0, lambda x: x.clone(), Level.BIT_EXACT), "float32", ProofCode.PLAIN,
        Contradiction.ZERO_SIGN,
    ),
    "other numbers": (
        rule(lambda x: x * 2, lambda x: x * 3, Level.EXACT_REAL), "float32", ProofCode.PLAIN, Contradiction.REALS
    ),
    "strides": (
        rule(lambda x: x.mT.clone(), lambda x: x.mT.contiguous(), Level.INDEX_EXACT, preserves=frozenset({"stride"})),
        "float32", ProofCode.PLAIN, Contradiction.STRIDE,
    ),
    "gradients": (
        rule(lambda x: x * 2, lambda x: x.detach() * 2, Level.BIT_EXACT, preserves=frozenset({"gradient"})),
        "float32", ProofCode.PLAIN, Contradiction.GRADIENT,
    ),
    "integers that wrap": (
        rule(lambda x: (x * 3 - x) // 2, lambda x: x.clone(), Level.EXACT_REAL, dtypes=("int8",)), "int8",
        ProofCode.PLAIN, Contradiction.VALUES,
    ),
    "never runs": (
        rule(lambda x: torch.take(x, x), lambda x: x.clone(), Level.EXACT_REAL), "float32", ProofCode.NO_ARGUMENTS,
        Contradiction.NONE,
    ),
    "only empty": (
        rule(lambda x: x.view(-1, 12345), lambda x: x.reshape(-1, 12345), Level.INDEX_EXACT, {"x": "0 n"}), "float32",
        ProofCode.ONLY_EMPTY, Contradiction.NONE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rules_are_proved_without_sentences(name: str) -> None:
    proved, dtype, code, contradicts = RULES[name]

    def decide() -> tuple[Any, ...]:
        made = prove_rule(proved, dtype, Prover(budget=200_000), 4, 8)
        return made.level, made.method, made.assumptions, made.shapes, made.code, made.contradicts

    *_, got, wrong = same_both_ways(decide)
    assert (got, wrong) == (code, contradicts)


PROPOSALS: dict[str, tuple[dict[str, Any], Outcome, str]] = {
    "a gradient falls": (
        {"before": "x.relu()", "after": "x.clamp(min=0)", "claim": "BIT_EXACT", "preserves": ["dtype", "gradient"]},
        Outcome.ADMITTED, "gradient",
    ),
    "a stride falls": (
        {"before": "x.mT.clone()", "after": "x.mT.contiguous()", "claim": "INDEX_EXACT", "preserves": ["stride"]},
        Outcome.ADMITTED, "stride",
    ),
    "the sign of zero falls": (
        {"before": "x + 0.0", "after": "x.clone()", "claim": "BIT_EXACT"}, Outcome.ADMITTED, "BIT_EXACT"
    ),
    "bits fall": (
        {"before": "x / 3", "after": "x * (1 / 3)", "claim": "BIT_EXACT"}, Outcome.ADMITTED, "BIT_EXACT"
    ),
    "all falls": ({"before": "x.relu()", "after": "x.abs()", "claim": "EXACT_REAL"}, Outcome.REFUTED, ""),
}  # fmt: skip


@pytest.fixture
def compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which units an admitted rule makes fire is another matter."""
    monkeypatch.setattr("fxmorph.propose.gate.rule_gate.fired_by_rule", lambda rule: ())


@pytest.mark.usefixtures("compiles_nothing")
@pytest.mark.parametrize("name", PROPOSALS)
def test_the_gate_decides_without_sentences(name: str) -> None:
    parts, outcome, fell = PROPOSALS[name]
    head = {"task": "rule", "name": "a_rule", "doc": "why", "aims": "ilp", "args": {"x": "m n"}, "dtypes": ["float32"]}
    proposal = read_proposal({**head, **parts})
    assert isinstance(proposal, RuleProposal)

    def decide() -> tuple[Any, ...]:
        said = judge_rule(proposal, "test:1", Known(()), Prover(budget=200_000))
        return said.outcome, said.level, said.claim, said.levels, [what for what, _ in said.dropped]

    got, *_, dropped = same_both_ways(decide)
    assert (got, dropped) == (outcome, [fell] if fell else [])


@pytest.mark.usefixtures("compiles_nothing")
def test_what_no_testing_mends_is_told_by_its_code() -> None:
    """A proof of integers that do not overflow is none of those that wrap, and the gate does not call it tested."""
    parts = {"before": "(x * 4) // 4", "after": "x.clone()", "claim": "EXACT_REAL", "dtypes": ["int64"]}
    head = {"task": "rule", "name": "a_rule", "doc": "why", "aims": "ilp", "args": {"x": "m n"}}
    proposal = read_proposal({**head, **parts})
    assert isinstance(proposal, RuleProposal)
    outcome = same_both_ways(lambda: judge_rule(proposal, "test:1", Known(()), Prover(budget=1000)).outcome)
    assert outcome in (Outcome.UNKNOWN, Outcome.REFUTED)


# -- what earlier releases stored ------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("3 of 4 elements, first at [0] in exact arithmetic: eager 1; compiled 2", VerdictCode.EXACT_ARITHMETIC),
        ("explicit-cast-elided: 3 of 4 elements, first at [0] keep more precision", VerdictCode.CAST_ELIDED),
        ("in spite of emulate_precision_casts: explicit-cast-elided: 1 of 1 elements", VerdictCode.CAST_ELIDED),
        ("3 of 4 elements, first at [0]: eager 1; compiled 2", VerdictCode.PLAIN),
    ],
)
def test_a_verdict_of_a_release_without_codes_has_one(reason: str, code: VerdictCode) -> None:
    old = {"status": "finding", "kind": "value", "slot": "out", "reason": reason, "plan": None, "far": False}
    assert from_json(Verdict, old).code is code
    assert to_json(from_json(Verdict, old)) == {**old, **({"code": code.value} if code else {})}


OLD = {
    "key": "k", "claim": "r(x)", "obligations": [], "counterexample": "", "reason": "", "queries": [], "versions": [],
    "seconds": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("level", "parts", "code", "contradicts"),
    [
        ("BIT_EXACT", {}, ProofCode.PLAIN, Contradiction.NONE),
        ("UNKNOWN", {"reason": "does not run: no"}, ProofCode.DOES_NOT_RUN, Contradiction.NONE),
        ("UNKNOWN", {"reason": "TERM shows BIT_EXACT, and eager EXACT_REAL: the model is wrong"},
         ProofCode.MODEL_WRONG, Contradiction.NONE),
        ("UNKNOWN", {"reason": "shown for integers that do not overflow; 7 scalar claims"},
         ProofCode.INTEGERS_WRAP, Contradiction.NONE),
        ("REFUTED", {"counterexample": "the gradient of x differs for x = 1"}, ProofCode.PLAIN, Contradiction.GRADIENT),
        ("REFUTED", {"counterexample": "bits differ for x = 1: before gives 1, after gives 2"}, ProofCode.PLAIN,
         Contradiction.BITS),
        ("REFUTED", {"counterexample": "bits differ in what x holds afterwards for x = 1"}, ProofCode.PLAIN,
         Contradiction.ARGUMENT),
        ("UNKNOWN", {"counterexample": "[1.0, 2.0]"}, ProofCode.PLAIN, Contradiction.NONE),
    ],
)  # fmt: skip
def test_a_certificate_of_a_release_without_codes_has_them(
    level: str, parts: dict[str, str], code: ProofCode, contradicts: Contradiction, tmp_path: Path
) -> None:
    proof = {"level": level, "scope": "one shape", "method": "FALSIFY-ONLY", "assumptions": []}
    body = {**OLD, "proof": proof, **parts}
    (tmp_path / "k").mkdir()
    file = tmp_path / "k" / "k.json"
    file.write_text(json.dumps(body))
    found = Certificates(tmp_path).get("k")
    assert found is not None and (found.code, found.contradicts) == (code, contradicts)
    if not code and not contradicts:  # nothing new to say: the file is what it was
        assert to_json(found) == body


def test_an_outcome_of_a_release_without_codes_is_late_where_its_words_say_so() -> None:
    old = to_json(Judged(Task.RULE, "a", "0" * 16, Outcome.UNKNOWN, "no arguments found"))
    assert not from_json(Judged, old).late and to_json(from_json(Judged, old)) == old
    assert from_json(Judged, {**old, "reason": f"{TOO_LONG}: 201 CPU seconds"}).late
