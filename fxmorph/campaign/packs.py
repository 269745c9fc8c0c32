"""Packs of proposals that a run takes: admitted rules, seeds and recipes, and those that a model is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxmorph.campaign.ideas import Idea, Ideas
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.core.config import Settings
from fxmorph.core.seeds import find_seeds
from fxmorph.core.store import Store
from fxmorph.model import Seed
from fxmorph.propose.admitted import admitted_chains, rules_with, write_seeds
from fxmorph.rules import PROPOSED, Registry

if TYPE_CHECKING:  # it loads what runs without proposals do not need
    from fxmorph.propose.model.stall import Stalled


class Packs:
    """Folders of proposals, what of them has yet to be tried, and the rules that there are with theirs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.folders: list[Path] = []
        self.ideas = Ideas()
        #: Hashes of the seeds that are proposals'.
        self.seeds: set[str] = set()
        self.rules = Registry()
        self._asked: Stalled | None = None

    def take(self, folders: Sequence[Path], seeds: Sequence[Seed]) -> list[Seed]:
        """Use what was admitted in ``folders`` too; returns its seeds but for those that are among ``seeds``."""
        s = self._settings
        self.folders += folders
        self.rules = rules_with(self.folders, [Path(p) for p in s.transforms])
        if not folders:
            return []
        place = s.state_dir / "proposed"
        fires = write_seeds(self.folders, place)
        known = {seed.hash for seed in seeds}
        new = [seed for seed in find_seeds([str(place)])[0] if seed.hash not in known]
        self.seeds |= {seed.hash for seed in new}
        self.ideas.add(Idea(seed, fires[Path(seed.path).name]) for seed in new)
        self.ideas.add(Idea(chain, fires) for pack in folders for chain, fires in admitted_chains(pack))
        return new

    def notes(self) -> list[str]:
        """What the header of a run says of them."""
        if not self.folders:
            return []
        proposed = sum(rule.family == PROPOSED for rule in self.rules)
        seeds = len(self.seeds)
        return [f"of proposals: {proposed} rules, {seeds} seeds, {len(self.ideas) - seeds} recipes"]

    def ask_where_stalled(self, store: Store, run_id: str, emit: Emit) -> None:
        """Have a language model asked, where settings and environment name one; raises :class:`ConfigError`."""
        if self._settings.propose:
            from fxmorph.propose.model.stall import Stalled

            self._asked = Stalled.of(self._settings, store, run_id, emit)

    def asked_for(self, turn: int, fired: Mapping[str, int], ledger: Ledger) -> Path | None:
        """The folder of what a language model brings before ``turn``; None where none is asked, or nothing came."""
        if self._asked is None:
            return None
        with ledger.activity("propose"):
            return self._asked.pack(turn, fired, self._settings.max_time - ledger.elapsed)


def pack_folders_of(settings: Settings, check: bool) -> list[Path]:
    """Folders of proposals that a run takes, ``check`` by ``--propose`` alone; runs that do import what reads them."""
    if not (settings.propose or (settings.all and not check)):
        return []
    from fxmorph.propose.gate.outcomes import pack_folders

    return pack_folders(settings.paths)
