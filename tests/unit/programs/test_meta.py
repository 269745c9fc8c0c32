"""What a seed may say about itself."""

from __future__ import annotations

from typing import Any

import pytest

from fxmorph.programs.meta import DESCRIPTIVE, READ, MetaError, read_meta

GOOD: dict[str, Any] = {
    "config": {"freezing": True}, "dynamo_config": {}, "compile": {"dynamic": True}, "no_grad": False, "calls": 2,
    "device": "cuda", "threads": 4, "raises": True, "batch_invariant": True,
}  # fmt: skip


def test_what_is_known_is_read_and_what_describes_is_not() -> None:
    assert GOOD.keys() == READ.keys()
    assert read_meta(GOOD) == GOOD
    assert read_meta(dict.fromkeys(DESCRIPTIVE, object())) == {}
    assert read_meta({}) == {}


@pytest.mark.parametrize("meta", [[], None, "no_grad", ("calls", 2), 3])
def test_no_dict_is_refused(meta: Any) -> None:
    with pytest.raises(MetaError, match=f"^META is a {type(meta).__name__}, want a dict$"):
        read_meta(meta)


@pytest.mark.parametrize(
    ("key", "near"),
    [("no_grads", "no_grad"), ("call", "calls"), ("Config", "config"), ("devices", "device"), ("raise", "raises")],
)
def test_an_unknown_key_brings_the_nearest(key: str, near: str) -> None:
    with pytest.raises(MetaError, match=f"unknown key '{key}'; did you mean '{near}'"):
        read_meta({"issue": 1, key: True})


def test_a_key_that_is_no_text_is_unknown() -> None:
    with pytest.raises(MetaError, match="unknown key 3"):
        read_meta({3: True})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[(key, value) for key in ("config", "dynamo_config", "compile") for value in (5, None, [], {1: 2}, "x")],
        *[(key, value) for key in ("calls", "threads") for value in ("3", 0, -1, 1.0, True, None)],
        *[(key, value) for key in ("no_grad", "raises", "batch_invariant") for value in (1, "yes", None)],
        ("device", "gpu"),
        ("device", 0),
        ("device", []),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(key: str, value: Any) -> None:
    with pytest.raises(MetaError) as error:
        read_meta({key: value})
    assert str(error.value).startswith(f"META[{key!r}] is {value!r}, want ")
