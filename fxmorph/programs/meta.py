"""What a seed says about itself in ``META``: the keys that are read, those that only describe it, and their types."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any


class MetaError(ValueError):
    """META is no dict, or has a key or a value that means nothing; the message names what would."""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_settings(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


_SETTINGS = (_is_settings, "a dict of names and values")
_FLAG = (lambda value: isinstance(value, bool), "True or False")
_COUNT = (_is_count, "a whole number from 1 on")

#: Keys that are read: what their values must be, as a test and in words.
READ: dict[str, tuple[Callable[[Any], bool], str]] = {
    "config": _SETTINGS,
    "dynamo_config": _SETTINGS,
    "compile": _SETTINGS,
    "no_grad": _FLAG,
    "calls": _COUNT,
    "device": (lambda value: value in ("cpu", "cuda"), "'cpu' or 'cuda'"),
    "threads": _COUNT,
    "raises": _FLAG,
    "batch_invariant": _FLAG,
}

#: Keys that are for people and other tools, as files of public issues have them.
DESCRIPTIVE = frozenset(
    """title description note issue url author category stage oracle expected reported versions first_bad_stage bisect
    atol rtol signed_zero no_fp64 ones_loss seeded""".split()
)


def read_meta(meta: Any) -> dict[str, Any]:
    """What is read of a seed's META; raises :class:`MetaError`."""
    if not isinstance(meta, dict):
        raise MetaError(f"META is a {type(meta).__name__}, want a dict")
    for key, value in meta.items():
        if key in DESCRIPTIVE:
            continue
        if key not in READ:
            near = difflib.get_close_matches(str(key), READ, 1, 0.0)[0]
            raise MetaError(f"META has the unknown key {key!r}; did you mean {near!r}?")
        fits, words = READ[key]
        if not fits(value):
            raise MetaError(f"META[{key!r}] is {value!r}, want {words}")
    return {key: meta[key] for key in READ if key in meta}
