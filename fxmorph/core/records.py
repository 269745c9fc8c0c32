"""Records to JSON and back, for every frozen dataclass of fxmorph.

The JSON is strict (no NaN, no Infinity) and holds field names as keys.  Where a field is
typed ``Any`` the value's own type decides: tuples and non-finite floats are tagged so that
they come back as they were.

A field whose metadata are :data:`SPARSE` is written where it says something, so that a record of an earlier
release, which had no such field, is written as it was.  A record that JSON holds in another form than field by
field has two methods: ``to_stored`` takes the JSON of its fields and gives what is stored, the class method
``from_stored`` the reverse, also of what earlier releases stored.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

#: Metadata of a field that is left out of the JSON where it has its default.
SPARSE = types.MappingProxyType({"sparse": True})

_TUPLE = "!tuple"
_FLOAT = "!float"


def to_json(record: object) -> Any:
    """``record`` as JSON values; raises ``TypeError`` naming what JSON cannot hold."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        hints = _hints(type(record))
        values = [(f, getattr(record, f.name)) for f in dataclasses.fields(record)]
        body = {
            f.name: _encode(hints[f.name], v) for f, v in values if not (f.metadata.get("sparse") and v == f.default)
        }
        return record.to_stored(body) if hasattr(record, "to_stored") else body
    return _encode(type(record), record)


def from_json(cls: type[T], data: Any) -> T:
    """The record of class ``cls`` that :func:`to_json` turned into ``data``.

    Fields that are missing take their default.  Raises ``ValueError`` naming the class and
    the field where ``data`` does not fit.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{cls.__name__}: want an object, got {type(data).__name__}")
    hints = _hints(typing.cast(Any, cls))
    read = getattr(cls, "from_stored", None)
    if read is not None:
        data = read(data)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise ValueError(f"{cls.__name__}: unknown field {unknown[0]!r}")
    values = {}
    for name, value in data.items():
        try:
            values[name] = _decode(hints[name], value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{cls.__name__}.{name}: {error}") from error
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from error


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _encode(hint: Any, value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, tuple):
        hint = next((h for h in typing.get_args(hint) if typing.get_origin(h) is tuple), hint) if _union(hint) else hint
        declared = typing.get_origin(hint) is tuple
        items = [_encode(h, v) for h, v in zip(_item_hints(hint, len(value)), value, strict=True)]
        return items if declared else {_TUPLE: items}
    if isinstance(value, list):
        return [_encode(Any, v) for v in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"JSON keys are strings, not {key!r}")
        return {k: _encode(Any, v) for k, v in value.items()}
    raise TypeError(f"no JSON form for {type(value).__name__} {value!r}")


def _union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _decode(hint: Any, value: Any) -> Any:
    origin = typing.get_origin(hint)
    if _union(hint):
        return _decode_union(typing.get_args(hint), value)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"want a list, got {value!r}")
        return tuple(_decode(h, v) for h, v in zip(_item_hints(hint, len(value)), value, strict=True))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_json(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    plain = untagged(value)
    if hint is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    if hint in (str, int, float, bool) and type(plain) is not hint:
        raise ValueError(f"want {hint.__name__}, got {plain!r}")
    return plain


def _decode_union(hints: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in hints:
        return None
    problems = []
    # An int passes as a float, so the member that fits without conversion goes first.
    for hint in sorted((h for h in hints if h is not type(None)), key=lambda h: type(value) is not h):
        try:
            return _decode(hint, value)
        except (TypeError, ValueError) as error:
            problems.append(str(error))
    raise ValueError("; ".join(problems))


def _item_hints(hint: Any, length: int) -> list[Any]:
    args = typing.get_args(hint)
    if not args:
        return [Any] * length
    if len(args) == 2 and args[1] is Ellipsis:
        return [args[0]] * length
    if len(args) != length:
        raise ValueError(f"want {len(args)} items, got {length}")
    return list(args)


def untagged(value: Any) -> Any:
    """The values that JSON of a field typed ``Any`` stands for: tuples and non-finite floats come back."""
    if isinstance(value, list):
        return [untagged(v) for v in value]
    if isinstance(value, dict):
        if set(value) == {_TUPLE}:
            return tuple(untagged(v) for v in value[_TUPLE])
        if set(value) == {_FLOAT}:
            return float(value[_FLOAT])
        return {k: untagged(v) for k, v in value.items()}
    return value
