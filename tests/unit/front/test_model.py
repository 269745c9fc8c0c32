"""Identity of cases, the text form of recipes, the order of verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fxmorph.model import Case, CompileConfig, Recipe, Rewrite, Seed, Status, TensorSpec, ValuePlan, worst

SEED = Seed("a.py", "module", "ab" * 8)
CASE = Case(SEED, 1, 0, (ValuePlan.SEED,), CompileConfig.make())


def test_a_case_has_the_same_id_wherever_its_file_lies() -> None:
    assert replace(CASE, seed=replace(SEED, path="/other/b.py", origin="x")).id == CASE.id


@pytest.mark.parametrize(
    "change",
    [
        {"number": 2},
        {"campaign_seed": 1},
        {"plans": (ValuePlan.EXACT,)},
        {"compile": CompileConfig.make("aot_eager")},
        {"compile": CompileConfig.make(inductor={"freezing": True})},
        {"input_seed": 1},
        {"device": "cuda"},
        {"recipe": Recipe()},
        {"torch": "2.6"},
        {"seed": replace(SEED, hash="cd" * 8)},
        {"seed": replace(SEED, mode="train")},
        {"reshaped": "empty"},
    ],
)
def test_all_that_decides_the_outcome_enters_the_id(change: dict[str, object]) -> None:
    assert replace(CASE, **change).id != CASE.id


def test_ids_of_cases_in_lists_and_states_stay() -> None:
    assert CASE.id == "6b316dc4d6ad4fb4"


RECIPES = [
    "",
    "algebra_a@mul",
    "algebra_a@mul ; layout_b{k=2}@add_1",
    "mutate_late@x>y_2",
    "dtype_c{on=True,s=-0.5,t=1e-05}@out",
]


@pytest.mark.parametrize("text", RECIPES)
def test_recipes_read_back_equal(text: str) -> None:
    assert str(Recipe.parse(text)) == text
    assert bool(Recipe.parse(text)) == bool(text)


def test_choices_keep_their_types() -> None:
    made = Recipe((Rewrite("r", "s", "", (("a", 1), ("b", 1.0), ("c", True))),))
    assert [type(v) for _, v in Recipe.parse(str(made)).rewrites[0].choices] == [int, float, bool]


@pytest.mark.parametrize("text", ["mul", "a@", "a{k}@s", "a b@s", "a@s>", "@s"])
def test_what_is_no_rewrite_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        Rewrite.parse(text)


def test_equal_settings_are_equal_configurations() -> None:
    assert CompileConfig.make(inductor={"a": 1, "b": 2}) == CompileConfig.make(inductor={"b": 2, "a": 1})


def test_the_worst_verdict_decides() -> None:
    assert worst([]) is Status.CLEAN
    assert worst([Status.TIE, Status.FINDING, Status.CLEAN]) is Status.FINDING
    assert worst([Status.FINDING, Status.UNSOUND_REWRITE]) is Status.UNSOUND_REWRITE


def test_specs_know_their_size_and_density() -> None:
    assert TensorSpec("float32", (2, 3), (3, 1)).numel == 6
    assert not TensorSpec("float32", (2, 3), (0, 1)).dense
    assert TensorSpec("float32", (1, 3), (0, 1)).dense
    with pytest.raises(TypeError, match="s0"):
        _ = TensorSpec("float32", ("s0",), (1,)).numel
