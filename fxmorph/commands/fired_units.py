"""``fxmorph coverage``: which units of Inductor fired in the last run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fxmorph.commands.columns import print_line
from fxmorph.commands.installed_units import installed_units
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.features import coverage_of, features_of
from fxmorph.core.last_run import last_coverage
from fxmorph.core.store import Store
from fxmorph.core.units import UnitKind
from fxmorph.report.unit_table import summary_lines, unit_rows


def coverage(settings: Settings) -> Exit:
    """Print the units with counts; raises ``ConfigError`` where no run says which fired."""
    with Store(settings.state_dir, write=False) as store:
        found = last_coverage(store)
    if found is None:
        raise ConfigError(f"no run in {settings.state} says which units fired (fxmorph run corpus/)")
    for line in _lines(*found, settings.json):
        print_line(line)
    return Exit.OK


def _lines(run_id: str, coverage: Mapping[str, Any], json_line: bool) -> Iterator[str]:
    """The units that a run saw, with counts (``last_coverage``); as one JSON line if ``json_line``."""
    alone, compiled = coverage.get("passes"), coverage.get("units", {})
    if json_line:
        table = {**alone, "compiled": compiled} if alone else {"units": compiled}
        yield json.dumps({"event": "coverage", "run_id": run_id, **table})
        return
    if alone:
        yield from _pair_lines(alone)
    if compiled and alone:
        yield ""
    if compiled or not alone:
        yield from _case_lines(compiled)


def _pair_lines(table: Mapping[str, Any]) -> Iterator[str]:
    """What a run of the pass rung saw of each unit."""
    rows = list(unit_rows(table["units"]))
    width = max((len(row[0]) for row in rows), default=0)
    for name, tried, fired, verdicts, rest in rows:
        yield f"{name:{width}}  {fired:>5} of {tried:>5}  {verdicts}{'; ' if verdicts else ''}{rest}"
    yield from summary_lines(table)


def _case_lines(units: Mapping[str, int]) -> Iterator[str]:
    """In how many cases of a run of whole compiles each unit fired, and what is on by default and did not."""
    width = max((len(name) for name in units), default=0)
    for name, count in sorted(units.items(), key=lambda item: (-item[1], item[0])):
        yield f"{name:{width}}  {count:>5}"
    installed = installed_units()
    for unit in installed:
        idle = unit.default and unit.device != "cuda" and unit.name not in units
        if idle and unit.kind in (UnitKind.PASS, UnitKind.ENTRY):
            yield f"{unit.name:{width}}      0"
    rows = coverage_of(features_of(units=units), features_of(units=(unit.name for unit in installed)))
    fired = ", ".join(f"{len(row.covered)} of {row.all} {row.kind.plural}" for row in rows)
    yield f"Fired in whole compiles: {fired}"
