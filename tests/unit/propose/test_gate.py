"""The gate: every outcome, and that nothing false is admitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.propose.admitted import admitted_rule, admitted_rules, rules_with, write_seeds
from fxmorph.propose.gate.outcomes import OUTCOMES, read_outcomes, write_outcomes
from fxmorph.propose.gate.rule_gate import judge_rule
from fxmorph.propose.gate.seed_gate import judge_seed
from fxmorph.propose.gate.sources import CorpusGraphs
from fxmorph.propose.language.sameness import Known
from fxmorph.propose.proposal import Judged, Outcome, RuleProposal, Task, read_pack, read_proposal, read_text, schema
from fxmorph.prove.prover import Prover

pytestmark = pytest.mark.usefixtures("torch_quiet")
PROVER = Prover(budget=200_000)


def proposal(**parts: Any) -> RuleProposal:
    body = {"task": "rule", "name": "a_rule", "doc": "why", "aims": "ilp", "args": {"x": "m n"}, "dtypes": ["float32"]}
    made = read_proposal(body | parts)
    assert isinstance(made, RuleProposal)
    return made


def judged(known: Known | None = None, **parts: Any) -> Judged:
    return judge_rule(proposal(**parts), "test:1", known or Known(()), PROVER)


def test_a_right_rule_is_admitted_with_its_level() -> None:
    said = judged(before="x.flip(0).flip(0)", after="x.clone()", claim="INDEX_EXACT", preserves=["dtype", "gradient"])
    assert (said.outcome, said.level, said.levels) == (
        Outcome.ADMITTED,
        Level.INDEX_EXACT,
        (("float32", "INDEX_EXACT"),),
    )
    assert said.dropped == ()


def test_a_wrong_rule_is_refuted_by_a_counterexample_that_differs_when_run_again() -> None:
    said = judged(before="x.relu()", after="torch.where(x > 0, x, 0.0)", claim="BIT_EXACT")
    assert said.outcome is Outcome.REFUTED
    assert "before gives nan" in said.counterexample and "after gives 0.0" in said.counterexample
    x = torch.tensor([[float("nan")]])
    assert x.relu().isnan().all() and not torch.where(x > 0, x, 0.0).isnan().any()


@pytest.mark.parametrize(
    ("parts", "fell", "left"),
    [
        ({"before": "x.relu()", "after": "x.clamp(min=0)", "claim": "BIT_EXACT", "preserves": ["dtype", "gradient"]},
         "gradient", ("BIT_EXACT", {"dtype"})),
        ({"before": "x.mT.clone()", "after": "x.mT.contiguous()", "claim": "INDEX_EXACT",
          "preserves": ["dtype", "stride"]}, "stride", ("INDEX_EXACT", {"dtype"})),
        ({"before": "x + 0.0", "after": "x.clone()", "claim": "BIT_EXACT"}, "BIT_EXACT",
         ("BIT_EXACT_MOD_ZERO_SIGN", set())),
        ({"before": "x / 3", "after": "x * (1 / 3)", "claim": "BIT_EXACT"}, "BIT_EXACT", ("EXACT_REAL", set())),
    ],
)  # fmt: skip
def test_a_promise_that_falls_is_dropped_and_said(parts: dict[str, Any], fell: str, left: Any) -> None:
    said = judged(**parts)
    assert said.outcome is Outcome.ADMITTED
    assert [what for what, _ in said.dropped] == [fell] and said.dropped[0][1]
    rule = admitted_rule(proposal(**parts), said)
    assert (rule.claim.value, set(rule.preserves)) == left


def test_the_same_up_to_names_and_spelling_is_a_duplicate() -> None:
    from fxmorph.propose.language.building import build_rule

    first = proposal(name="first", before="x.transpose(0, 1) + y", after="(x + y.mT).T", args={"x": "m n", "y": "n m"})
    said = judged(
        Known([build_rule(first)]), before="torch.add(torch.swapaxes(q, 0, 1), p)", after="torch.add(q, p.mT).T",
        args={"p": "a b", "q": "b a"},
    )  # fmt: skip
    assert (said.outcome, said.same_as) == (Outcome.DUPLICATE, "proposed_first")


def test_a_rule_that_is_a_case_of_a_known_one_is_a_duplicate() -> None:
    from fxmorph.propose.language.building import build_rule

    wide = proposal(name="wide", args={"x": "... n"}, before="x.flip(-1).flip(-1)", after="x.clone()")
    said = judged(Known([build_rule(wide)]), before="x.flip(-1).flip(-1)", after="x.clone()", where=["m > 2"])
    assert (said.outcome, said.same_as) == (Outcome.DUPLICATE, "proposed_wide")
    other = judged(Known([build_rule(wide)]), before="x.flip(0).flip(0)", after="x.clone()")
    assert other.outcome is Outcome.ADMITTED


def test_a_rule_that_assumes_less_is_no_duplicate() -> None:
    from fxmorph.propose.language.building import build_rule

    sides = {"before": "x - x", "after": "torch.zeros_like(x)"}
    careful = build_rule(proposal(name="careful", assumes=["finite"], **sides))
    assert judged(Known([careful]), **sides).outcome is Outcome.ADMITTED
    assert judged(Known([careful]), assumes=["finite"], **sides).outcome is Outcome.DUPLICATE


@pytest.mark.parametrize(
    ("parts", "outcome", "said"),
    [
        ({"before": "x + 1", "after": "torch.add(x, 1)"}, Outcome.MALFORMED, "same graph"),
        ({"before": "x", "after": "x + 0"}, Outcome.MALFORMED, "no operation"),
        ({"before": "x + ", "after": "x"}, Outcome.MALFORMED, "line 1"),
        ({"before": "x + 1", "after": "x + 1 - 0", "where": ["m > 5", "m < 3"]}, Outcome.MALFORMED, "no arguments"),
        ({"before": "x @ x.sum()", "after": "x"}, Outcome.MALFORMED, "raises"),
        ({"before": "x * 2", "after": "x.reshape(7, 7, 7)"}, Outcome.REFUTED, ""),
        ({"before": "x + 1", "after": "torch.ones(10**9)[0] + x"}, Outcome.MALFORMED, "1000000000 elements"),
        ({"before": "x + 1", "after": "torch.load('x')"}, Outcome.UNSUPPORTED, "torch.load"),
        ({"before": "x * 2", "after": "x.mul_(2)"}, Outcome.REFUTED, ""),
        ({"before": "x * 2", "after": "x.double() * 2"}, Outcome.REFUTED, ""),
    ],
)
def test_other_outcomes(parts: dict[str, Any], outcome: Outcome, said: str) -> None:
    got = judged(**parts)
    assert got.outcome is outcome
    assert said in got.reason
    assert bool(got.counterexample) == (outcome is Outcome.REFUTED)


# -- packs and outcomes -----------------------------------------------------------


def test_a_pack_reports_each_bad_line_with_its_number(tmp_path: Path) -> None:
    good = proposal(before="x + 1", after="1 + x").model_dump_json()
    deep = "[" * 9000
    lines = ["# a comment", good, "{not json", '{"task": "rule"}', "", good.replace("a_rule", "A-Rule"), deep,
             good.replace('"EXACT_REAL"', '"TESTED"'), '{"task": "joke", "name": "x"}', "\xff"]  # fmt: skip
    pack = tmp_path / "some.jsonl"
    pack.write_text("\n".join(lines))
    read = list(read_pack(pack))
    assert [line.source for line in read] == [f"some.jsonl:{n}" for n in (2, 3, 4, 6, 7, 8, 9, 10)]
    assert [line.proposal is not None for line in read] == [True] + [False] * 7
    assert all(line.error for line in read[1:])


def test_the_hash_of_a_proposal_is_of_what_decides() -> None:
    one = proposal(before="x + 1", after="1 + x")
    assert one.hash == one.model_copy(update={"doc": "other", "aims": "kc"}).hash
    assert one.hash != one.model_copy(update={"claim": "BIT_EXACT"}).hash


def test_every_task_has_a_schema_that_forbids_other_keys() -> None:
    for task in Task:
        assert schema(task)["additionalProperties"] is False
        assert {"name", "doc", "aims"} <= set(schema(task)["required"])


def test_outcomes_come_back_and_admitted_rules_load_without_proving(tmp_path: Path) -> None:
    p = proposal(before="x.relu()", after="x.clamp(min=0)", claim="BIT_EXACT", preserves=["dtype", "gradient"])
    said = judge_rule(p, "some.jsonl:1", Known(()), PROVER)
    (tmp_path / "some.jsonl").write_text(p.model_dump_json() + "\n")
    write_outcomes(tmp_path / OUTCOMES, [said])
    assert read_outcomes(tmp_path / OUTCOMES)[p.hash].dropped == said.dropped
    assert "lowering.aten.clamp_min.default" in said.fires and "lowering.aten.relu.default" not in said.fires
    loaded = list(admitted_rules(tmp_path))
    assert [r.fires for r in loaded] == [frozenset(said.fires)]
    assert [(r.id, r.preserves, r.source) for r in loaded] == [("proposed_a_rule", {"dtype"}, "some.jsonl:1")]
    assert "proposed_a_rule" in [r.id for r in rules_with([tmp_path])]
    body = json.loads((tmp_path / OUTCOMES).read_text())
    (tmp_path / OUTCOMES).write_text(json.dumps(body | {"made with": body["made with"] | {"prover": "0"}}))
    assert list(admitted_rules(tmp_path)) == []


# -- seeds ------------------------------------------------------------------------


SEED = {
    "task": "seed", "name": "a_seed", "doc": "d", "aims": "kc",
    "inputs": [{"name": "x", "shape": [4, 6], "layout": "transposed", "requires_grad": True},
               {"name": "i", "shape": [3], "dtype": "int64", "fill": "integers:0:4"}],
    "body": "y = x.clone()\nfor k in range(2):\n    y[k] += k\nouts = []\n"
            "for v in (x, y):\n    outs.append(v[i].sum())\nreturn outs[0], torch.stack(outs)",
}  # fmt: skip


class _Nothing(CorpusGraphs):
    def named(self, key: str) -> str:
        return ""


def seed_outcome(tmp_path: Path, **parts: Any) -> Judged:
    made = read_proposal(SEED | parts)
    return judge_seed(made, "test:1", _Nothing(tmp_path, tmp_path))  # type: ignore[arg-type]


def test_a_seed_is_admitted_and_written_as_a_file_that_runs(tmp_path: Path) -> None:
    from fxmorph.core.seeds import find_seeds
    from fxmorph.programs.load import load_seed

    said = seed_outcome(tmp_path)
    assert (said.outcome, said.reason) == (Outcome.ADMITTED, "")
    packs = tmp_path / "packs"
    packs.mkdir()
    (packs / "seeds.jsonl").write_text(json.dumps(SEED) + "\n")
    write_outcomes(packs / OUTCOMES, [said])
    assert {"lowering.aten.sum.default", "decomposition.aten.stack.default"} & set(said.fires)
    assert [*write_seeds([packs], tmp_path / "proposed").values()] == [frozenset(said.fires)]
    seeds, refused = find_seeds([str(tmp_path / "proposed")])
    assert (len(seeds), refused) == (1, [])
    made = load_seed(seeds[0]).fresh()
    assert made.args[0].stride() == (1, 4) and made.args[0].requires_grad
    out = made.drive(made.fn)
    x, i = made.args
    assert torch.equal(out[0], x[i].sum()) and out[1].shape == (2,)
    write_seeds([], tmp_path / "proposed")
    assert find_seeds([str(tmp_path / "proposed")])[0] == []


@pytest.mark.parametrize(
    ("parts", "outcome", "said"),
    [
        ({"body": "return x.add_(1)"}, Outcome.MALFORMED, "leaf"),
        ({"body": "return torch.empty(64, 64).sum() * 0 + x.bernoulli()"}, Outcome.UNSUPPORTED, "bernoulli"),
        ({"body": "return torch.ones(10**9)"}, Outcome.MALFORMED, "elements"),
        ({"body": "return 3"}, Outcome.MALFORMED, "returns tensors"),
        ({"inputs": [{"name": "x", "shape": [1000, 1000, 10]}]}, Outcome.MALFORMED, "10000000 elements"),
        ({"body": "y = x\nfor k in range(250):\n    y = y + 1\nreturn y"}, Outcome.MALFORMED, "250 operations"),
    ],
)
def test_other_outcomes_of_seeds(tmp_path: Path, parts: dict[str, Any], outcome: Outcome, said: str) -> None:
    got = seed_outcome(tmp_path, **parts)
    assert got.outcome is outcome
    assert said in got.reason


def test_settings_of_a_seed_cannot_name_programs() -> None:
    line = read_text(json.dumps(SEED | {"inductor": {"cpp.cxx": "/bin/sh"}}), "test:1")
    assert line.proposal is None and "inductor" in line.error
