"""JSON Schema of a record (:mod:`fxmorph.core.records`), from its type hints."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any

_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "minimum": 0},
}


@dataclass(frozen=True)
class Words:
    """In ``Annotated[str, Words(...)]``: the only values of a text."""

    words: tuple[str, ...]


def record_schema(record: Any, **constants: str) -> dict[str, Any]:
    """An object with exactly the fields of ``record``, after the keys that are constant.  Numbers are 0 or more."""
    hints = typing.get_type_hints(record, include_extras=True)
    fixed = {key: {"const": value} for key, value in constants.items()}
    properties = {**fixed, **{f.name: value_schema(hints[f.name]) for f in dataclasses.fields(record)}}
    return {
        "type": "object", "properties": properties, "required": [*properties], "additionalProperties": False,
    }  # fmt: skip


def value_schema(hint: Any) -> dict[str, Any]:
    """The schema of what a field with this type hint is in JSON; raises ``TypeError`` for a hint that has none."""
    if typing.get_origin(hint) is typing.Annotated:
        return {"enum": list(hint.__metadata__[0].words)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    origin, items = typing.get_origin(hint), typing.get_args(hint)
    if origin is UnionType and items[1:] == (NoneType,):
        inner = value_schema(items[0])
        return {**inner, "type": [inner["type"], "null"]}
    if origin is tuple:
        return {"type": "array", "items": value_schema(items[0])}
    if origin in (dict, Mapping):
        return {"type": "object"} | ({} if items[1] is Any else {"additionalProperties": value_schema(items[1])})
    if dataclasses.is_dataclass(hint):
        return record_schema(hint)
    raise TypeError(f"no JSON Schema for {hint}")
