"""JSON Schema from type hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest

from fxmorph.core.json_schema import Words, record_schema, value_schema

COUNT = {"type": "integer", "minimum": 0}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (bool, {"type": "boolean"}),
        (float | None, {"type": ["number", "null"], "minimum": 0}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (dict[str, Any], {"type": "object"}),
        (Mapping[str, dict[str, int]], {
            "type": "object", "additionalProperties": {"type": "object", "additionalProperties": COUNT},
        }),
        (Annotated[str, Words(("a", ""))], {"enum": ["a", ""]}),
    ],
)  # fmt: skip
def test_a_hint_has_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert value_schema(hint) == schema


def test_a_hint_without_a_schema_is_an_error() -> None:
    with pytest.raises(TypeError, match="no JSON Schema for <class 'complex'>"):
        value_schema(complex)


@dataclass(frozen=True)
class Line:
    word: ClassVar[str] = "line"
    number: int = 0


def test_a_record_is_an_object_with_exactly_its_fields() -> None:
    assert record_schema(Line, event="line") == {
        "type": "object", "properties": {"event": {"const": "line"}, "number": COUNT}, "required": ["event", "number"],
        "additionalProperties": False,
    }  # fmt: skip
