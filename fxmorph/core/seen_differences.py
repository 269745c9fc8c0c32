"""Differences that shipped programs, and units alone, are known to show under releases of torch: they come last,
and are looked into last.

What is new comes first, since time is short; nothing is hidden by it, and nothing is called known for it.
``bench/seen_differences.py`` writes the table from stored runs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from dataclasses import replace
from importlib import resources
from pathlib import Path

from fxmorph.core.operator_seeds import FORM, OperatorProgram
from fxmorph.core.versions import version_of
from fxmorph.model import Case, CaseResult, Kind, Seed

FILE = "seen-differences.json"


def keys_of(seed: Seed) -> list[str]:
    """Of a program as it is: its file's name, or how the calls of an operator are named, of each one that it has."""
    if seed.form != FORM:
        return [Path(seed.label).name]
    program = OperatorProgram.of(seed)
    return [replace(program, operator=operator).seed().label for operator in program.operators]


def seen_before(case: Case, result: CaseResult) -> bool:
    """Whether the installed torch is known to differ so on the program, which is as it is."""
    return not case.number and not result.recipe and _are_listed(keys_of(case.seed), result.kinds)


def differs_as_it_is(seed: Seed) -> bool:
    """Whether the installed torch is known to differ on the program as it is, in some way."""
    return any(key in _of_release() for key in keys_of(seed))


def unit_key(place: str, sort: str) -> str:
    """Of what units of one ``place`` alone do to graphs with one ``sort`` of change, "" for none."""
    return f"unit:{place}" + (f" ({sort})" if sort else "")


def unit_seen_before(place: str, sort: str, kinds: Collection[Kind]) -> bool:
    """Whether units of the installed torch are known to differ so."""
    return _are_listed([unit_key(place, sort)], kinds)


def _are_listed(keys: Collection[str], kinds: Collection[Kind]) -> bool:
    return set(kinds) <= {kind for key in keys for kind in _of_release().get(key, ())}


def _of_release() -> dict[str, list[str]]:
    """Kinds by program or unit, of the installed release."""
    return _table().get(version_of("torch").partition("+")[0], {})


@functools.cache
def _table() -> dict[str, dict[str, list[str]]]:
    """By release the kinds of difference of each program."""
    text = resources.files("fxmorph.corpus").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, dict[str, list[str]]] = json.loads(text)
    return found
