"""``fxmorph corpus add``: takes seeds that reach something which the corpus does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fxmorph.commands.columns import print_line
from fxmorph.commands.measured_seeds import MeasuredSeed, MeasuredSeeds, measure, measured_seeds
from fxmorph.commands.seed_copies import copied, home_of, require_own_file
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.features import Feature, in_words
from fxmorph.core.seeds import Refusal, SeedError, find_seeds, is_regression
from fxmorph.model import Seed


def add(settings: Settings, corpus: Path, keep_all: bool) -> Exit:
    """Copy the seeds at the settings' paths that add something into the corpus, and say of each what.

    A regression is taken whatever it adds; with ``keep_all`` every seed is that is not there already.  Raises
    :class:`ConfigError` for a corpus that is no folder, or cannot be written.
    """
    if corpus.exists() and not corpus.is_dir():
        raise ConfigError(f"--to {corpus}: not a folder")
    there = measured_seeds(replace(settings, paths=(str(corpus),), all=True)).seeds if corpus.is_dir() else ()
    found = _found(settings)
    growing = _Corpus(corpus)
    for measured in there:
        growing.note(measured, measured.seed.label)
    for measured in found.seeds:
        print_line(f"{measured.seed.label}: {growing.take(measured, keep_all)}")
    for other in found.unmeasured:
        if keep_all or is_regression(other.seed):
            print_line(f"{other.seed.label}: kept as {copied(other.seed, home_of(corpus, other.seed))}")
    return found.tell_unmeasured()


def _found(settings: Settings) -> MeasuredSeeds:
    """What can be measured of the paths; those that name no seed file are bad, and do not stop the others."""
    seeds: list[Seed] = []
    refusals: list[Refusal] = []
    for path in settings.paths:
        try:
            here, refused = find_seeds([path], regressions=True)
            refusals += refused
            for seed in here:
                require_own_file(seed)
                seeds.append(seed)
        except (SeedError, ConfigError) as error:
            where, _, reason = str(error).partition(": ")
            refusals.append(Refusal(where, reason))
    return measure(list(dict.fromkeys(seeds)), refusals, settings.effective_jobs)


class _Corpus:
    """What the corpus has so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._covered: set[Feature] = set()
        #: Paths of seeds by their hash, and by that of their graphs.
        self._hashes: dict[str, str] = {}
        self._graphs: dict[str, str] = {}

    def note(self, measured: MeasuredSeed, where: str) -> None:
        """The seed is there, at ``where``."""
        self._covered |= measured.reach.features
        self._hashes.setdefault(measured.reach.hash, where)
        if measured.reach.graphs:
            self._graphs.setdefault(measured.reach.graphs, where)

    def take(self, measured: MeasuredSeed, keep_all: bool) -> str:
        """Take the seed, if it adds something or is kept anyway; returns what it adds, in words."""
        reach, seed = measured.reach, measured.seed
        adds = reach.features - self._covered
        if reach.hash in self._hashes:
            return f"adds nothing: it is there as {self._hashes[reach.hash]}"
        words = f"adds {len(adds)}: {in_words(adds)}" if adds else "adds nothing"
        if not adds and reach.graphs in self._graphs:
            words += f": the same graph as {self._graphs[reach.graphs]}"
        if adds or keep_all or is_regression(seed):
            copy = str(copied(seed, home_of(self._folder, seed)))
            words += "" if adds else f"; kept as {copy}"
            self.note(measured, copy)
        return words
