"""``fxmorph passes``: the units of the installed torch, and all there is to say about one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fxmorph.commands.columns import print_line
from fxmorph.commands.installed_units import installed_units
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.last_run import last_coverage, rows_of
from fxmorph.core.store import Store, StoreError
from fxmorph.core.units import PLURALS, Stage, Unit, UnitKind
from fxmorph.core.versions import version_of
from fxmorph.events import UnitListed
from fxmorph.report.jsonlines import JsonLines


def list_units(settings: Settings, stage: str, kind: str, json_lines: bool) -> Exit:
    """Print each unit as an event line, or a table that ends with counts; "" for stage or kind means all.

    What the last run saw of a unit is told with it.
    """
    rows = _last_rows(settings)
    found = [u for u in installed_units() if stage in ("", u.stage) and kind in ("", u.kind)]
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
    return f"torch {version_of('torch')}: {len(units)} units; " + "; ".join(parts)


def show_unit(name: str) -> Exit:
    """Print what a unit is; raises ``ConfigError`` that names near ones where there is none."""
    from fxmorph.inductor.description import describe
    from fxmorph.inductor.inventory import UnknownUnit, listed

    try:
        item = listed(name)
    except UnknownUnit as error:
        raise ConfigError(str(error)) from None
    for row in describe(item):
        print_line(row)
    return Exit.OK
