"""Lists of cases as JSON lines, so that a run can be fixed before anything is judged.

One object a line: ``seed`` (path beside the list), ``seed_hash``, and what differs from a seed
as it is: ``number`` and ``recipe`` of a variant with ``graph_hash``, ``dtype``, ``dynamic``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fxmorph.core.config import ConfigError
from fxmorph.core.seeds import find_seeds
from fxmorph.model import Case, CompileConfig, Recipe


@dataclass(frozen=True)
class Listed:
    """One line of a list."""

    seed: str
    seed_hash: str
    number: int = 0
    recipe: str = ""
    graph_hash: str = ""
    dtype: str = ""
    dynamic: bool = False

    def to_json(self) -> dict[str, Any]:
        """Without what has its default value."""
        default = Listed("", "")
        return {k: v for k, v in vars(self).items() if k in ("seed", "seed_hash") or v != getattr(default, k)}


def write_list(path: Path, rows: Iterable[Listed]) -> None:
    path.write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows), encoding="utf-8")


def read_list(path: Path, base: Case) -> list[Case]:
    """Cases like ``base`` but for what the lines say.

    Raises :class:`ConfigError` for lines that are none, for seeds that are not there, and for
    seeds that are no longer what they were.
    """
    cases = []
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = Listed(**json.loads(line))
            recipe = Recipe.parse(row.recipe) if row.recipe else None
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}:{n}: not a case: {error}") from None
        where = path.parent / row.seed
        seeds, refused = find_seeds([str(where)]) if where.exists() else ([], [])
        if len(seeds) != 1:
            raise ConfigError(f"{path}:{n}: {where}: {refused[0].reason if refused else 'no such seed'}")
        if seeds[0].hash != row.seed_hash:
            raise ConfigError(f"{path}:{n}: {where} has changed since the list was made")
        options = {**dict(base.compile.options), **({"dynamic": True} if row.dynamic else {})}
        compiled = CompileConfig.make(
            base.compile.backend, options, dict(base.compile.inductor), dict(base.compile.dynamo), base.compile.threads
        )
        cases.append(replace(base, seed=seeds[0], number=row.number, recipe=recipe, dtype=row.dtype, compile=compiled))
    return cases
