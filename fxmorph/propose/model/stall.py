"""A campaign whose coverage stalls asks a language model for rules, recipes and seeds."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fxmorph.core.config import Settings
from fxmorph.core.store import Store
from fxmorph.events import Event, Warned
from fxmorph.propose.model.meter import Budget
from fxmorph.propose.model.options import Asked, Online, read_online
from fxmorph.propose.model.session_folder import Kept
from fxmorph.torchapi.compiling import BACKEND_LADDER

#: Requests of one session, and the share of the run's time that it may take.
CALLS, SHARE = 12, 0.1
#: Units that one session is aimed at: rules, recipes and seeds for each are as many requests as there may be.
TARGETS = 4
#: Sessions of a run.
SESSIONS = 3


class Stalled:
    """Has the sessions of a campaign: one before a turn, where the turn before it made no new unit fire.

    A resumed run takes what its sessions brought instead of having them again.
    """

    def __init__(
        self, settings: Settings, online: Online, store: Store, run_id: str, emit: Callable[[Event], None]
    ) -> None:
        self._settings, self._online, self._store, self._run_id, self._emit = settings, online, store, run_id, emit
        self._left = SESSIONS

    @classmethod
    def of(cls, settings: Settings, store: Store, run_id: str, emit: Callable[[Event], None]) -> Stalled | None:
        """None where the environment names no model (OPENAI_MODEL and a key or server), or no unit can fire.

        Raises :class:`fxmorph.core.config.ConfigError`.
        """
        if settings.backend in BACKEND_LADDER:  # none of them runs Inductor
            return None
        online = read_online(Asked(), os.environ)
        return cls(settings, online, store, run_id, emit) if online is not None else None

    def pack(self, turn: int, fired: Mapping[str, int], seconds_left: float) -> Path | None:
        """The folder of what was admitted before ``turn``; None where nothing was, or nobody is asked any more.

        ``fired`` counts the programs so far by the units that they made fire.
        """
        from fxmorph.propose.model.online import more
        from fxmorph.propose.model.session import End

        if not self._left:
            return None
        self._left -= 1
        kept = Kept.of_run(self._settings.state_dir, self._run_id, turn)
        if kept is None:
            seconds = min(SHARE * self._settings.max_time, seconds_left)
            if seconds <= 0:
                return None
            self._emit(Warned(f"turn {turn}: nothing new fired in the last one"))
            online = replace(self._online, budget=Budget(calls=CALLS, seconds=seconds))
            end, folder = more(self._settings, self._store, online, (), self._targets(turn, fired), self._emit, fired)
            if end not in (End.DONE, End.SPENT):
                self._left = 0
            kept = Kept(folder)
            kept.belongs(self._run_id, turn)
        pack = kept.folder / "proposals"
        return pack if any(file.stat().st_size for file in pack.glob("*.jsonl")) else None

    def _targets(self, turn: int, fired: Mapping[str, int]) -> list[str]:
        """Some of the units that have not fired."""
        from fxmorph.propose.model.context import targets

        units = [name for name in targets((), {}) if "." in name and name not in fired]
        drawn = random.Random(f"targets {self._settings.seed} {turn}")
        return drawn.sample(units, min(TARGETS, len(units)))
