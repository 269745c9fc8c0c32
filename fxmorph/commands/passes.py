"""``fxmorph passes``: the units of the installed torch, and all there is to say about one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.last_run import last_coverage, rows_of
from fxmorph.core.store import Store, StoreError
from fxmorph.core.units import PLURALS, Stage, Unit, UnitKind, kind_of
from fxmorph.events import UnitListed
from fxmorph.inductor.description import describe
from fxmorph.inductor.inventory import UnknownUnit, inventory, listed
from fxmorph.report.jsonlines import JsonLines
from fxmorph.report.unit_table import summary_lines, unit_rows
from fxmorph.torchapi.switching import release

Print = Callable[[str], None]


def list_units(settings: Settings, stage: str, kind: str, json_lines: bool) -> Exit:
    """Print each unit as an event line, or a table that ends with counts; "" for stage or kind means all.

    What the last run saw of a unit is told with it.
    """
    rows = _last_rows(settings)
    found = [u for u in inventory() if stage in ("", u.stage) and kind in ("", u.kind)]
    if json_lines:
        told = JsonLines()
        for unit in found:
            told.handle(_event(unit, rows.get(unit.name, {})))
        return Exit.OK
    width = max((len(unit.name) for unit in found), default=0)
    for unit in found:
        when = "default" if unit.default else unit.flag
        note = f"  ({unit.note})" if unit.note else ""
        seen = _seen(rows.get(unit.name, {}))
        print_line(f"{unit.name:{width}}  {unit.stage:13}  {unit.kind:13}  {unit.device:4}  {when}{note}{seen}")
    print_line(_summary(found))
    return Exit.OK


def _event(unit: Unit, row: Mapping[str, Any]) -> UnitListed:
    return UnitListed(
        unit.name, unit.stage, unit.kind, unit.default, unit.flag, unit.device, unit.module, unit.eager, unit.note,
        row.get("tried"), row.get("fired"), row.get("verdicts", {}),
    )  # fmt: skip


def _last_rows(settings: Settings) -> dict[str, dict[str, Any]]:
    """What the last run with coverage says of each unit; empty where there was none."""
    if not settings.state_dir.is_dir():
        return {}
    try:
        with Store(settings.state_dir, write=False) as store:
            found = last_coverage(store)
    except StoreError:  # no store: nothing was run
        return {}
    return rows_of(found[1]) if found else {}


def _seen(row: Mapping[str, Any]) -> str:
    if not row.get("fired"):
        return ""
    tried = f" of {row['tried']}" if row.get("tried") else ""
    verdicts = ", ".join(f"{word} {n}" for word, n in row.get("verdicts", {}).items())
    return f"; last run: fired {row['fired']}{tried}" + (f" ({verdicts})" if verdicts else "")


def _summary(units: Sequence[Unit]) -> str:
    """``torch 2.13.0: 3135 units.  joint: 10 passes, 143 entries; …``"""
    parts = []
    for stage in Stage:
        kinds = Counter(u.kind for u in units if u.stage is stage)
        if kinds:
            parts.append(f"{stage}: " + ", ".join(f"{kinds[k]} {PLURALS[k]}" for k in UnitKind if kinds[k]))
    fallbacks = sum(u.note == "fallback" for u in units)
    parts += [f"{fallbacks} of the lowerings are fallbacks"] if fallbacks else []
    parts.append(f"{sum(u.default for u in units)} on by default")
    return f"torch {release()}: {len(units)} units; " + "; ".join(parts)


def show_unit(name: str) -> Exit:
    """Print what a unit is; raises ``ConfigError`` that names near ones where there is none."""
    try:
        item = listed(name)
    except UnknownUnit as error:
        raise ConfigError(str(error)) from None
    for row in describe(item):
        print_line(row)
    return Exit.OK


def show_coverage(run_id: str, coverage: Mapping[str, Any], json_line: bool, line: Print) -> None:
    """Print the units that a run saw, with counts (``last_coverage``); as one JSON line if ``json_line``."""
    alone, compiled = coverage.get("passes"), coverage.get("units", {})
    if json_line:
        table = {**alone, "compiled": compiled} if alone else {"units": compiled}
        line(json.dumps({"event": "coverage", "run_id": run_id, **table}))
        return
    if alone:
        _show_pairs(alone, line)
    if compiled and alone:
        line("")
    if compiled or not alone:
        _show_cases(compiled, line)


def _show_pairs(table: Mapping[str, Any], line: Print) -> None:
    """What a run of the pass rung saw of each unit."""
    rows = list(unit_rows(table["units"]))
    width = max((len(row[0]) for row in rows), default=0)
    for name, tried, fired, verdicts, rest in rows:
        line(f"{name:{width}}  {fired:>5} of {tried:>5}  {verdicts}{'; ' if verdicts else ''}{rest}")
    for text in summary_lines(table):
        line(text)


def _show_cases(units: Mapping[str, int], line: Print) -> None:
    """In how many cases of a run of whole compiles each unit fired, and what is on by default and did not."""
    width = max((len(name) for name in units), default=0)
    for name, count in sorted(units.items(), key=lambda item: (-item[1], item[0])):
        line(f"{name:{width}}  {count:>5}")
    idle = [u for u in inventory() if u.default and u.device != "cuda" and u.name not in units]
    for unit in idle:
        if unit.kind in (UnitKind.PASS, UnitKind.ENTRY):
            line(f"{unit.name:{width}}      0")
    of = Counter(u.kind for u in inventory())
    fired = Counter(map(kind_of, units))
    line("Fired in whole compiles: " + ", ".join(f"{fired[k]} of {of[k]} {PLURALS[k]}" for k in UnitKind))
