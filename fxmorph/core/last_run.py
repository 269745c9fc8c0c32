"""What the last run saw of the units of Inductor.  Reads the store alone and does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fxmorph.core.store import Store


def last_coverage(store: Store) -> tuple[str, dict[str, Any]] | None:
    """Id and coverage of the last finished run that says which units fired; None if there was none."""
    runs = ((i, s.get("coverage", {})) for i, s in store.summaries())
    return next(((i, c) for i, c in runs if c.keys() & {"passes", "units"}), None)


def rows_of(coverage: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a run saw of each unit, by name: ``tried``, ``fired``, ``verdicts``, ``why``, as far as it knows."""
    rows: dict[str, dict[str, Any]] = {name: {"fired": n} for name, n in coverage.get("units", {}).items()}
    for name, row in coverage.get("passes", {}).get("units", {}).items():
        rows[name] = {**row, "fired": row["fired"] + rows.get(name, {}).get("fired", 0)}
    return rows
