"""``fxmorph passes``: the units of the installed torch, and all there is to say about one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fxmorph.config import ConfigError, Settings
from fxmorph.events import UnitListed
from fxmorph.inductor.describing import describe
from fxmorph.inductor.inventory import UnknownUnit, inventory, listed
from fxmorph.inductor.units import Stage, Unit, UnitKind
from fxmorph.report.passes import summary_lines, unit_rows
from fxmorph.store import Store
from fxmorph.torchapi.switching import release

Print = Callable[[str], None]


def list_units(stage: str, kind: str, tell: Callable[[UnitListed], None] | None, line: Print) -> None:
    """Tell each unit as an event, or print a table that ends with counts; "" for stage or kind means all."""
    found = [u for u in inventory() if stage in ("", u.stage) and kind in ("", u.kind)]
    if tell is not None:
        for unit in found:
            tell(_event(unit))
        return
    width = max((len(unit.name) for unit in found), default=0)
    for unit in found:
        when = "default" if unit.default else unit.flag
        note = f"  ({unit.note})" if unit.note else ""
        line(f"{unit.name:{width}}  {unit.stage:13}  {unit.kind:13}  {unit.device:4}  {when}{note}")
    line(_summary(found))


def _event(unit: Unit) -> UnitListed:
    return UnitListed(
        unit.name, unit.stage, unit.kind, unit.default, unit.flag, unit.device, unit.module, unit.eager, unit.note
    )


_PLURALS = {
    UnitKind.PASS: "passes",
    UnitKind.ENTRY: "entries",
    UnitKind.DECOMPOSITION: "decompositions",
    UnitKind.LOWERING: "lowerings",
}


def _summary(units: Sequence[Unit]) -> str:
    """``torch 2.13.0: 3135 units.  joint: 10 passes, 143 entries; …``"""
    parts = []
    for stage in Stage:
        kinds = Counter(u.kind for u in units if u.stage is stage)
        if kinds:
            parts.append(f"{stage}: " + ", ".join(f"{kinds[k]} {_PLURALS[k]}" for k in UnitKind if kinds[k]))
    fallbacks = sum(u.note == "fallback" for u in units)
    parts += [f"{fallbacks} of the lowerings are fallbacks"] if fallbacks else []
    parts.append(f"{sum(u.default for u in units)} on by default")
    return f"torch {release()}: {len(units)} units; " + "; ".join(parts)


def show_unit(name: str, line: Print) -> None:
    """Print what a unit is; raises ``ConfigError`` that names near ones where there is none."""
    try:
        item = listed(name)
    except UnknownUnit as error:
        raise ConfigError(str(error)) from None
    for row in describe(item):
        line(row)


def last_coverage(store: Store) -> tuple[str, dict[str, Any]] | None:
    """Id of the last run of the pass rung, and its table of units; None if there was none."""
    return next(((i, s["coverage"]["passes"]) for i, s in store.summaries() if "passes" in s.get("coverage", {})), None)


def show_coverage(settings: Settings, line: Print) -> None:
    """Print the units of the last run of the pass rung with their counts; raises ``ConfigError`` if there was none."""
    with Store(settings.state_dir, write=False) as store:
        found = last_coverage(store)
    if found is None:
        raise ConfigError(f"no run of the pass rung in {settings.state} (fxmorph run corpus/ --pass '*')")
    run_id, table = found
    if settings.json:
        line(json.dumps({"event": "coverage", "run_id": run_id, **table}))
        return
    rows = list(unit_rows(table["units"]))
    width = max((len(row[0]) for row in rows), default=0)
    for name, tried, fired, verdicts, rest in rows:
        line(f"{name:{width}}  {fired:>5} of {tried:>5}  {verdicts}{'; ' if verdicts else ''}{rest}")
    for text in summary_lines(table):
        line(text)
