"""What the last run saw of the units of Inductor.  Reads the store alone and does not import torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any

from fxmorph.core.config import ANEW, Settings
from fxmorph.core.store import Store, StoredRun
from fxmorph.core.units import UnitKind, kind_of


def last_coverage(store: Store) -> tuple[str, dict[str, Any]] | None:
    """Id and coverage of the last finished run that says which units fired; None if there was none.

    Of a campaign in shards it is that of all shards in the store together.
    """
    runs = [run for run in store.runs() if run.summary.get("coverage", {}).keys() & {"passes", "units"}]
    if not runs:
        return None
    parts = [run.summary["coverage"] for run in campaign_of(runs[-1], runs)]
    return runs[-1].id, reduce(_joined, parts)


def campaign_of(run: StoredRun, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The run, and of ``runs``, which are oldest first, the last one of each other shard of its campaign."""
    if run.settings.shard is None:
        return [run]
    shards = {other.settings.shard: other for other in runs if _campaign(other) == _campaign(run)}
    shards.pop(None, None)
    return [run, *(other for shard, other in shards.items() if shard != run.settings.shard)]


def _campaign(run: StoredRun) -> tuple[Any, ...]:
    """Equal for runs that judge parts of the same cases."""
    unset = Settings()
    told = {f.name: getattr(unset, f.name) for f in fields(Settings) if f.name in (*ANEW, "shard", "given")}
    return replace(run.settings, **told), run.header.get("torch")


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The coverage of two shards: what is counted by unit, since other things may be in both."""
    both = {key: _added(one.get(key, {}), other.get(key, {})) for key in ("units", "passes")}
    if alone := both["passes"]:
        fired = Counter(kind_of(name).value for name, row in alone["units"].items() if row["fired"])
        entries = fired[UnitKind.ENTRY.value] + alone["entries_matched_only"]  # an entry is one shard's
        both["passes"] = {**alone, "fired": dict(fired), "entries_fired": entries}
    return {key: table for key, table in both.items() if table}


def _added(one: Any, other: Any) -> Any:
    """Counts in tables that lie in each other added, other things as the first one that has them says."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = dict.fromkeys((*one, *other))
        return {k: _added(one[k], other[k]) if k in one and k in other else one.get(k, other.get(k)) for k in keys}
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return one + other if numbers else one


def rows_of(coverage: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What a run saw of each unit, by name: ``tried``, ``fired``, ``verdicts``, ``why``, as far as it knows."""
    rows: dict[str, dict[str, Any]] = {name: {"fired": n} for name, n in coverage.get("units", {}).items()}
    for name, row in coverage.get("passes", {}).get("units", {}).items():
        rows[name] = {**row, "fired": row["fired"] + rows.get(name, {}).get("fired", 0)}
    return rows
