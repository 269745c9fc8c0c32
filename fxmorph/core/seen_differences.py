"""Differences that shipped programs, and units alone, are known to show under releases of torch: they are looked into
last.

What is new comes first, since time is short; nothing is hidden by it, and nothing is called known for it.
``bench/seen_differences.py`` writes the table from stored runs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from importlib import resources
from pathlib import Path

from fxmorph.core.versions import version_of
from fxmorph.model import Case, CaseResult, Kind

FILE = "seen-differences.json"


def key_of(case: Case) -> str:
    """Of a program as it is: its file's name, or how the calls of an operator are named."""
    seed = case.seed
    return Path(seed.label).name if seed.form != "operator" else seed.label


def seen_before(case: Case, result: CaseResult) -> bool:
    """Whether the installed torch is known to differ so on the program, which is as it is."""
    return not case.number and not result.recipe and _is_listed(key_of(case), result.kinds)


def unit_key(place: str, sort: str) -> str:
    """Of what units of one ``place`` alone do to graphs with one ``sort`` of change, "" for none."""
    return f"unit:{place}" + (f" ({sort})" if sort else "")


def unit_seen_before(place: str, sort: str, kinds: Collection[Kind]) -> bool:
    """Whether units of the installed torch are known to differ so."""
    return _is_listed(unit_key(place, sort), kinds)


def _is_listed(key: str, kinds: Collection[Kind]) -> bool:
    release = version_of("torch").partition("+")[0]
    return set(kinds) <= set(_table().get(release, {}).get(key, ()))


@functools.cache
def _table() -> dict[str, dict[str, list[str]]]:
    """By release the kinds of difference of each program."""
    text = resources.files("fxmorph.corpus").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, dict[str, list[str]]] = json.loads(text)
    return found
