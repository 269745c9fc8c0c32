"""``fxmorph propose``: proposals of packs, or of a language model, through the gate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fxmorph.commands.columns import print_line
from fxmorph.commands.reporters import reporting
from fxmorph.commands.usage import settings_of
from fxmorph.core.config import ConfigError
from fxmorph.propose.model.options import Asked, read_online, task_of, time_of


def propose(
    given: Mapping[str, Any],
    asked: Asked,
    words: Sequence[str],
    target: str,
    packs: Sequence[str],
    record: str,
    fresh: bool,
    misplaced: bool,
) -> int:
    """Ask a model where one is named, else take the packs; returns the exit code.

    ``given`` are settings as they were written, ``words`` those of ``--task``; ``misplaced``: options were given that
    only ``--synthesise`` takes.  Raises ``ConfigError``.
    """
    tasks = [task_of(word) for word in words]
    online = None if packs and not asked.online else read_online(asked, os.environ)
    if online is not None and (packs or record or fresh):
        raise ConfigError("--packs, --record and --fresh are for packs: leave them out to ask a model")
    settings = settings_of({**given, "max_time": time_of(asked.budget) if online is None else None})
    if misplaced:
        raise ConfigError("--ops and --out go with --synthesise")
    for pack in packs:
        if not Path(pack).exists():
            raise ConfigError(f"--packs {pack}: no such file or folder")
    if record and not (Path(record).parent.is_dir() and not Path(record).is_dir()):
        raise ConfigError(f"--record {record}: no file can be there")
    if online is not None and online.dry_run:
        from fxmorph.propose.model.online import dry_run

        return dry_run(settings, online, tasks, target, print_line)
    from fxmorph.report.gate_table import ProposalTable

    with reporting(settings, lambda to: ProposalTable(to, settings.quiet, bool(settings.verbose))) as emit:
        if online is not None:
            from fxmorph.propose.model.online import propose as ask_model

            return ask_model(settings, online, tasks, target, emit)
        from fxmorph.commands.pack_gate import judge_packs

        where = Path(record) if record else None
        return judge_packs(settings, [Path(p) for p in packs], tasks, target, fresh, where, emit)
