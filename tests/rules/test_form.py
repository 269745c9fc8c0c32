"""The rule form: what a rule need not say, rules of text in tables, what the docs of shipped rules are made of."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch

from fxmorph.prove.certificates import rule_hash
from fxmorph.rules import HEADINGS, TARGETS, Rule, RuleError, load_rules, refuse_unknown

SHIPPED = list(load_rules())
HEAD = """
import torch
from fxmorph.model import FLOATS, Level
from fxmorph.rules import doc_text, rule, written
F = {"args": {"x": "..."}, "site": "value", "claim": Level.INDEX_EXACT}
"""
CLASS = """
@rule(**F)
class layout_again:
    '''Clones.'''
    {before}
    def after(x):
        return x.clone()
"""
ROW = 'written("{id}", doc_text("Clones.", "Same values."), globals(), after="x: {after}", **F)\n'


def loaded(folder: Path, text: str) -> dict[str, Rule]:
    (folder / "mine.py").write_text(HEAD + text)
    return {r.id: r for r in load_rules([folder]) if Path(r.source) == folder / "mine.py"}


# -- any value -----------------------------------------------------------------


def test_a_rule_of_any_value_needs_no_before(tmp_path: Path) -> None:
    made = loaded(tmp_path, CLASS.format(before=""))["layout_again"]
    x = torch.ones(2)
    assert made.before(x) is x
    assert inspect.getsource(made.before) == "    def before(x): return x\n"


def test_a_before_that_is_written_out_makes_the_same_rule(tmp_path: Path) -> None:
    texts = [CLASS.format(before=before) for before in ("", "def before(x): return x\n")]
    short, long = (rule_hash(loaded(tmp_path, text)["layout_again"]) for text in texts)
    assert short == long


def test_before_is_named_as_the_argument_is(tmp_path: Path) -> None:
    text = CLASS.format(before="").replace("**F", 'args={"y": "..."}, site="late"').replace("x", "y")
    assert list(inspect.signature(loaded(tmp_path, text)["layout_again"].before).parameters) == ["y"]


def test_a_pattern_is_always_written(tmp_path: Path) -> None:
    text = CLASS.format(before="").replace("**F", 'args={"x": "..."}')
    with pytest.raises(RuleError, match="no function 'before'"):
        loaded(tmp_path, text)


# -- rows of tables ------------------------------------------------------------


def test_a_row_is_the_rule_that_a_class_would_be(tmp_path: Path) -> None:
    (tmp_path / "row").mkdir()
    (tmp_path / "class").mkdir()
    after = "y = torch.clone(x); y.add_(0); return y"
    row = loaded(tmp_path / "row", ROW.format(id="layout_again", after=after))["layout_again"]
    lines = "\n        ".join(after.split("; "))
    plain = loaded(tmp_path / "class", CLASS.format(before="").replace("return x.clone()", lines))["layout_again"]
    assert inspect.getsource(row.after) == inspect.getsource(plain.after)
    assert row.after.__code__.co_code == plain.after.__code__.co_code
    assert (rule_hash(row), row.args, row.site) == (rule_hash(plain), plain.args, plain.site)
    assert row.said == {"Why equivalent": "Same values."} and row.does == "Clones."
    assert torch.equal(row.after(torch.ones(2)), torch.ones(2))


@pytest.mark.parametrize("second", [ROW.format(id="layout_again", after="return x + 0"), CLASS.format(before="")])
def test_an_id_that_is_given_twice_in_a_file_is_refused(second: str, tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"rule 'layout_again' is defined twice in .*mine\.py"):
        loaded(tmp_path, ROW.format(id="layout_again", after="return x.clone()") + second)


def test_an_id_of_two_files_is_refused_with_both_named(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"defined twice: .*mutate_late\.py and .*mine\.py"):
        loaded(tmp_path, ROW.format(id="mutate_late_zero", after="return x.clone()"))


def test_a_row_that_is_not_python_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"rule 'layout_odd' \(.*mine\.py\): .*return x \+"):
        loaded(tmp_path, ROW.format(id="layout_odd", after="return x +"))


def test_rows_and_classes_are_known_from_their_text() -> None:
    refuse_unknown([rule.id for rule in SHIPPED])
    with pytest.raises(RuleError, match="no rule 'mutate_late_zer'; did you mean 'mutate_late_zero'"):
        refuse_unknown(["mutate_late_zer"])


# -- docs of shipped rules -----------------------------------------------------


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda r: r.id)
def test_a_shipped_rule_says_what_it_does_and_why_under_its_headings(rule: Rule) -> None:
    does, _, rest = rule.doc.partition("\n\n")
    assert does.endswith(".") and rest.startswith("Why equivalent: ")
    assert list(rule.said) == [head for head in HEADINGS if head in rule.said]
    assert all(text.endswith(".") for text in rule.said.values())


def beyond(text: str, targets: tuple[str, ...]) -> set[str]:
    """The words of a text that neither name its targets nor the ways to name one."""
    words = set(re.findall(r"\w+", text.lower()))
    plain = "aims at and or by of on in the a its pass lowering decomposition removed".split()
    return words.difference(targets, plain)


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda r: r.id)
def test_a_doc_does_not_say_again_what_the_targets_say(rule: Rule) -> None:
    assert "Aims at" not in rule.doc
    assert not [word for word in rule.targets if word in TARGETS and TARGETS[word] in rule.doc]
    assert "Provokes" not in rule.said or beyond(rule.said["Provokes"], rule.targets)


def test_a_doc_that_names_its_targets_alone_says_nothing_beyond() -> None:
    assert not beyond("The clamp lowering or decomposition.", ("iod", "clamp"))
    assert beyond("The clamp lowering of infinite bounds.", ("iod", "clamp"))


def test_what_target_words_mean_is_said_of_words_that_are_used() -> None:
    assert set(TARGETS) <= {word for rule in SHIPPED for word in rule.targets}
