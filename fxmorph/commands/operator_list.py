"""``fxmorph seeds ops``: operators of torch's own tests that programs are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from fxmorph.campaign.operator_order import ordered_programs
from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import ConfigError
from fxmorph.core.exits import Exit
from fxmorph.core.operator_seeds import PREFIX, ListedOperator, Setting


def list_operators(as_json: bool) -> Exit:
    """One line each, and their number; raises :class:`ConfigError` where this torch has no such tests."""
    from fxmorph.torchapi.operator_programs import listed_operators
    from fxmorph.torchapi.operator_samples import NoSamples, operator_tests

    try:
        listed, tests = listed_operators(), len(operator_tests())
    except NoSamples as error:
        raise ConfigError(f"the operators of torch's tests cannot be imported: {error}") from None
    if as_json:
        for operator in listed:
            print_line(json.dumps({"event": "operator", **asdict(operator)}))
        return Exit.OK
    rows = [(PREFIX + o.name, str(o.parts), " ".join(_settings(o)), " ".join(o.dtypes)) for o in listed]
    print_columns(("operator", "parts", "settings", "dtypes"), rows)
    programs = sum(1 for _ in ordered_programs(listed, 0))
    print_line(f"{len(listed)} of {tests} operators that torch has tests of, {programs} programs")
    return Exit.OK


def _settings(operator: ListedOperator) -> Iterator[str]:
    without = {s: operator.differentiable for s in Setting if s.differentiated} | {Setting.IN_PLACE: operator.in_place}
    return (setting for setting in Setting if without.get(setting, True))
