"""Words that say what an issue or a program is about, and operators that are akin."""

from __future__ import annotations

from fxmorph.triage.known.operator_families import akin
from fxmorph.triage.known.telling_words import telling_words


def test_names_are_taken_apart_and_forms_are_one() -> None:
    assert telling_words("OrderedDict.move_to_end") == {"order", "dict", "move", "end"}
    assert telling_words("x.half() in bf16") == telling_words("float16, bfloat16")
    assert telling_words("vectorised reductions") == telling_words("vectorized reduction")


def test_words_that_say_nothing_are_left_out() -> None:
    assert telling_words("the result of torch.compile is wrong") == frozenset()


def test_operators_of_one_family_are_akin() -> None:
    assert akin(["amax", "sin"], frozenset({"argmax"})) == {"amax"}
    assert akin(["sin"], frozenset({"argmax"})) == frozenset()
