"""What the seeds of a corpus reach, measured in worker processes and remembered for later commands."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fxmorph.commands.installed_units import installed_units
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.features import Feature, Reach, features_of
from fxmorph.core.installed_lists import FEATURES, REACHES
from fxmorph.core.pool import Ended, Pool
from fxmorph.core.seeds import Refusal, find_seeds, is_regression
from fxmorph.core.store import DiskError
from fxmorph.inductor.reach_jobs import ListFeatures, MeasureSeed, Unmeasured
from fxmorph.model import Seed

#: CPU seconds that one seed may take, and one that lists what torch has.
LIMIT = 120.0
#: So many seeds that are not measured yet are told of before.
MANY = 10
#: So many seeds are remembered, those measured last.
REMEMBERED = 5000


@dataclass(frozen=True)
class MeasuredSeed:
    seed: Seed
    reach: Reach


@dataclass(frozen=True)
class UnmeasuredSeed:
    seed: Seed
    reason: str


@dataclass(frozen=True)
class MeasuredSeeds:
    """``bad`` are no seeds or do not run; ``unmeasured`` need a machine of another kind, or are regressions, whose bug
    it may be.
    """

    seeds: tuple[MeasuredSeed, ...]
    bad: tuple[Refusal, ...]
    unmeasured: tuple[UnmeasuredSeed, ...] = ()

    def tell_unmeasured(self) -> Exit:
        """One line on stderr for each that is not measured; returns the exit code that they make."""
        for other in self.unmeasured:
            print(f"fxmorph: {other.seed.label}: not measured: {other.reason}", file=sys.stderr)
        for refusal in self.bad:
            print(f"fxmorph: {refusal.path}: {refusal.reason}", file=sys.stderr)
        if self.bad:
            return Exit.USAGE
        if not (self.seeds or self.unmeasured):
            print("fxmorph: no seeds there", file=sys.stderr)
        return Exit.OK if self.seeds else Exit.NOTHING_RAN


def measured_seeds(settings: Settings) -> MeasuredSeeds:
    """What each seed of the settings' paths reaches, in the order of ``find_seeds``; raises ``SeedError``."""
    seeds, refusals = find_seeds(list(settings.paths), regressions=settings.all)
    return measure(seeds, refusals, settings.effective_jobs)


def measure(seeds: Sequence[Seed], refusals: Sequence[Refusal], jobs: int) -> MeasuredSeeds:
    """What each of the seeds reaches, in their order, by so many workers; ``refusals`` are bad ones already."""
    known = {reach.hash: reach for reach in REACHES.remembered() or ()}
    measured: list[MeasuredSeed] = []
    bad, unmeasured = list(refusals), list[UnmeasuredSeed]()
    for seed, answer in _answers(seeds, known, jobs):
        if isinstance(answer, Reach):
            measured.append(MeasuredSeed(seed, answer))
        elif answer.elsewhere or is_regression(seed):
            unmeasured.append(UnmeasuredSeed(seed, answer.reason))
        else:
            bad.append(Refusal(seed.label, answer.reason))
    return MeasuredSeeds(tuple(measured), tuple(bad), tuple(unmeasured))


def _answers(seeds: Sequence[Seed], known: dict[str, Reach], jobs: int) -> Iterator[tuple[Seed, Reach | Unmeasured]]:
    new = [seed for seed in seeds if seed.hash not in known]
    if len(new) >= MANY:
        print(f"fxmorph: measuring {len(new)} seeds, about a second each; later it is remembered", file=sys.stderr)
    found: dict[str, Reach | Unmeasured] = dict(known)
    try:
        if new:
            for ended in _worked([MeasureSeed(seed) for seed in new], min(jobs, len(new))):
                found[ended.job.seed.hash] = _told(ended)
    finally:
        if new:  # after Ctrl-C, too
            REACHES.remember([reach for reach in found.values() if isinstance(reach, Reach)][-REMEMBERED:])
    yield from ((seed, found[seed.hash]) for seed in seeds)


def _told(ended: Ended) -> Reach | Unmeasured:
    if ended.trouble:
        return Unmeasured(f"{ended.trouble}: {ended.detail}")
    answer: Reach | Unmeasured = ended.value
    return answer


def _worked(jobs: Sequence[Any], size: int) -> Iterator[Ended]:
    """How each job ends, in workers with a folder that goes with them; raises :class:`DiskError`."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="fxmorph-reach-")
    except OSError as error:
        raise DiskError(f"no folder for temporary files: {error.strerror}; TMPDIR names another") from None
    with folder as scratch, Pool(size, _serve, (scratch,), ["fxmorph.inductor.reach_worker"]) as pool:
        yield from pool.run(jobs, LIMIT)


def _serve(*arguments: Any) -> None:
    """In the worker, which has torch: the parent has not."""
    from fxmorph.inductor.reach_worker import serve

    serve(*arguments)


def every_feature() -> frozenset[Feature]:
    """All features that the installed torch has; raises :class:`ConfigError` where it cannot be asked."""
    return frozenset({*FEATURES.found(_listed), *features_of(units=(unit.name for unit in installed_units()))})


def _listed() -> tuple[Feature, ...]:
    (ended,) = _worked([ListFeatures()], 1)
    if ended.trouble:
        raise ConfigError(f"torch cannot be asked what it has: {ended.detail}")
    listed: tuple[Feature, ...] = ended.value
    return listed


def reached_by(seeds: Iterable[MeasuredSeed]) -> set[Feature]:
    """The features that any of the seeds reaches."""
    return {feature for measured in seeds for feature in measured.reach.features}
