"""What a model is told: cut to size, about its target, in the schema that answers are checked against."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fxmorph.core.config import ConfigError
from fxmorph.propose.gate.outcomes import shipped_packs
from fxmorph.propose.model.answers import answer_schema
from fxmorph.propose.model.context import REFUTED, RULES, Context, aimable, bug_text, rules_text, source_text, targets
from fxmorph.propose.proposal import Task, read_pack, schema
from fxmorph.rules import Registry

COVERAGE = {
    "units": {
        "post_grad.a": {"tried": 3, "fired": 2, "verdicts": {}},
        "post_grad.b": {"tried": 3, "fired": 0, "why": "looked at 3 graphs and changed none"},
    }
}


def test_coverage_is_told_of_the_target() -> None:
    context = Context(Registry(), COVERAGE)
    assert "it fired on 2 graphs" in context.coverage_text("post_grad.a")
    assert context.coverage_text("post_grad.b") == ("So far it has never fired: looked at 3 graphs and changed none.")
    assert "Of 2 passes and pattern entries 1 have not fired so far, among them post_grad.b." in (
        context.coverage_text("bam")
    )
    assert Context(Registry()).coverage_text("bam") == ""


def test_refutations_are_those_of_the_target_the_latest_first_and_cut() -> None:
    rows = [("bam", f'{{"name": "r{n}"}}', f"x = {n}") for n in range(400)] + [("ugo", '{"name": "other"}', "y")]
    text = Context(Registry(), refuted=rows).refutations_text("bam")
    assert text.index("r399") < text.index("r398") and "other" not in text and len(text) < REFUTED + 200
    assert Context(Registry(), refuted=rows).refutations_text("ilp") == ""


def test_rules_about_the_same_operators_come_with_their_docs(rules: Registry) -> None:
    text = rules_text(rules, "CallFunction(aten.cumsum.default, KeywordArg('x'))")
    first, _, rest = text.partition("Further ones")
    assert "dtype_cumsum_int_argument: Takes the running sum with dtype=int64." in first
    assert "cumsum_int_argument" not in rest and "\nalgebra_: abs_as_maximum, " in rest and len(text) <= RULES


def test_bug_classes_are_targets_without_torch_s_units() -> None:
    assert targets(["bam", "kc"], COVERAGE) == ["bam", "kc"]


def test_source_is_read_where_there_is_some() -> None:
    assert source_text(rules_text).startswith("def rules_text(")
    assert source_text(len) == "" and source_text(None) == ""


def test_a_bug_is_all_text_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("the issue")
    (tmp_path / "b.pt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c.patch").write_text("- the patch")
    assert bug_text(tmp_path) == "a.md:\nthe issue\n\nc.patch:\n- the patch"
    assert bug_text(tmp_path / "a.md") == "a.md:\nthe issue"
    with pytest.raises(ConfigError, match=r"b\.pt: no text in it"):
        bug_text(tmp_path / "b.pt")


@pytest.mark.parametrize("task", list(Task))
def test_the_schema_of_an_answer_is_one(task: Task) -> None:
    form = answer_schema(schema(task))
    jsonschema.Draft202012Validator.check_schema(form)
    jsonschema.validate({"proposals": []}, form)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"proposals": [{"task": task}]}, form)


def test_a_seed_is_valid_in_the_schema_of_answers() -> None:
    seed = {"task": "seed", "name": "a", "doc": "d", "aims": "bam", "inputs": [{"name": "x", "shape": [2]}],
            "body": "x + 1"}  # fmt: skip
    form = json.loads(json.dumps(answer_schema(schema(Task.SEED))))
    jsonschema.validate({"proposals": [seed]}, form)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"proposals": [{**seed, "inputs": [{"name": "x", "shape": [-2]}]}]}, form)


def test_every_shipped_proposal_aims_at_something() -> None:
    aims = {
        line.proposal.aims
        for pack in shipped_packs().glob("*.jsonl")
        for line in read_pack(pack)
        if line.proposal is not None
    }
    assert len(aims) > 400 and [aim for aim in sorted(aims) if not aimable(aim)] == []
    assert not aimable("post_grad.no_such_pass") and not aimable("nothing*")
