"""Units of Inductor alone: the jobs of ``run --pass``, and a part of every run over a corpus.

Side by side: calls of operators that decompositions take apart, on the samples of torch's own tests; small graphs made
from the code of whole passes; graphs derived from pattern entries, and near misses of them; seeds in all modes, then
variants of seeds.  A seed whose graphs made units fire for the first time is drawn more often, and so are rules whose
rewrites did.  What a finding was given is then compiled as a whole, to say whether a program would show it.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fxmorph.campaign.accusations import Accusations
from fxmorph.campaign.credit import Credit
from fxmorph.campaign.finding_queue import FindingQueue
from fxmorph.campaign.jobs import Derive, JudgePasses
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.campaign.schedule import LATEST, too_many
from fxmorph.campaign.time_shares import Lane, mixed
from fxmorph.core.config import Settings
from fxmorph.core.operator_seeds import part_of_tests
from fxmorph.core.pool import Ended, Trouble
from fxmorph.core.records import to_json
from fxmorph.core.units import Unit, UnitKind
from fxmorph.events import UnitFired, Warned
from fxmorph.inductor.coverage import Coverage
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.pair_record import Pair, family, kin
from fxmorph.inductor.rung import Chosen, Mode, PassesJudged, Source
from fxmorph.inductor.sampled_calls import PARTS
from fxmorph.model import Rung, Seed, Status
from fxmorph.torchapi.operator_samples import TURNS

T = TypeVar("T")
_ENDED = object()
#: Entries that one job derives graphs from, with near misses and without, and graphs of each, about.
ENTRIES_A_JOB, ENTRIES_ALONE, NEAR = 3, 8, 6
#: So many turns later come entries that do not run by default.
LATER = 2
#: What stands before an operator's name in that of its test.
NAMESPACES = ("", "nn.functional.", "special.", "linalg.", "fft.")
#: The share of the time after which what the installed torch is known to do is compiled as a whole too.
LATE = 0.85
#: A seed's weight grows by this for each unit that its graphs made fire first.
ENERGY = 3.0
#: A source is tried again so often without the unit that crashed.
RETRIES = 3
#: A unit that took its process with it so often is left out from then on: each time costs a new worker.
CRASHES = 3
#: CPU seconds for deriving graphs from a few entries, of which one may take 20, and for a part of the samples.
DERIVE_SECONDS = 400.0


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a job, about, as ``bench/rung_costs.py`` measures."""

    derive: float = 0.7
    derived: float = 0.09
    made: float = 1.0
    more_made: float = 5.0
    samples: float = 0.75
    seed: float = 0.9
    replay: float = 1.1

    def of(self, job: Any) -> float:
        if isinstance(job, Derive):
            return self.derive
        if not isinstance(job, JudgePasses):
            return self.replay
        source = job.source
        if source.samples is not None:
            return self.samples
        if source.made:
            return self.more_made if source.turn else self.made
        return self.derived if source.derived is not None else self.seed

    def with_graphs(self, job: Derive) -> float:
        """The judgement of what is derived, too."""
        return self.derive + self.derived * (NEAR * ENTRIES_A_JOB if job.near else ENTRIES_ALONE)


class UnitSchedule:
    """Jobs on ``seeds``, and on what is made for the units that :meth:`told` hears of; programs of findings go to a
    folder of the state.

    ``prove``: what does not differ is proved where that can be done.  After ``limit`` jobs there are no more.
    """

    rung = Rung.PASS
    until = LATEST
    late_jobs: Iterator[Any] = iter(())

    def __init__(
        self, settings: Settings, seeds: Sequence[Seed], ledger: Ledger, queue: FindingQueue, emit: Emit,
        prove: bool = True, limit: int | None = None,
    ) -> None:  # fmt: skip
        self._settings, self._prove = settings, prove
        self._seeds = list(self._own(seeds))
        self._most = limit
        self._chosen: Chosen | None = None
        self._ledger, self._emit = ledger, emit
        self.tally = Coverage()
        self._credit = Credit()
        #: How many jobs were given out, and how many of them have ended.
        self._issued = self._heard = 0
        #: Graphs to be judged: derived from entries, and near misses of them.
        self._derived: deque[Derived] = deque()
        self._deriving = 0
        #: Entries whose own graph was, or is to be, judged.
        self._as_it_is: set[str] = set()
        self._accusations = Accusations(settings, ledger, queue, emit)
        self._skip: dict[str, set[str]] = defaultdict(set)
        self._later: deque[JudgePasses] = deque()
        self._crashes: Counter[str] = Counter()
        #: How many graphs and parts of samples were judged, and of how many an exception of ours is all that came.
        self._sources = self._failed = 0
        #: Where programs of findings lie.
        self.programs = settings.state_dir / "programs"

    def told(self, chosen: Chosen) -> None:
        """Which units there are: no job comes before."""
        self._chosen = chosen
        shutil.rmtree(self.programs, ignore_errors=True)

    @property
    def _units(self) -> Sequence[Unit]:
        return self._chosen.units if self._chosen is not None else ()

    @property
    def planned(self) -> int | None:
        return None  # how many graphs entries give, and how many parts of samples run, nobody knows before

    @property
    def judged(self) -> int:
        return self.tally.fired

    @property
    def unjudged(self) -> int:
        return self._failed if too_many(self._failed, self._sources) else 0

    @property
    def rungs(self) -> dict[str, int]:
        return {self.rung.value: self.judged}

    # -- jobs ------------------------------------------------------------------

    def jobs(self) -> Iterator[Any]:
        while self._chosen is None:
            yield None
        planned = mixed(self._lanes(self._chosen.coded))
        while self._most is None or self._issued < self._most:
            late = self._ledger.elapsed > LATE * self._settings.max_time
            job = self._urgent(self._issued, late)
            if job is None:
                job = next(planned, _ENDED)
            if job is _ENDED:
                job = self._urgent(self._issued, late=True) or _ENDED
            if job is _ENDED and not self._deriving and self._heard == self._issued:
                return
            if job is None or job is _ENDED:
                yield None
            else:
                index, self._issued = self._issued, self._issued + 1
                yield replace(job, index=index)

    def _urgent(self, index: int, late: bool) -> Any:
        """What answers asked for: programs of findings, graphs derived from entries, what a crash cut off."""
        replay = self._accusations.next_replay(index, late)
        if replay is not None:
            return replay
        while self._derived:
            graph = self._derived.popleft()
            if graph.entry in self._left_out or (graph.change and self._accusations.cover(graph)):
                continue
            return self._job(Source(derived=graph))
        return self._later.popleft() if self._later else None

    def _lanes(self, coded: Sequence[str]) -> list[Lane[Any]]:
        cost = Cost()
        first = Lane[Any](self._of_seeds((Mode.INFERENCE,)), cost.seed, 0.1)
        others = itertools.chain(self._of_seeds((Mode.TRAINING, Mode.FREEZING, Mode.DYNAMIC)), self._variants())
        return [
            Lane(self._samples(), cost.samples, 1.2),
            Lane(self._made(coded), cost.of, 1.2),
            Lane(self._derivations(coded), cost.with_graphs, 1.0),
            first,
            Lane(others, cost.seed, 0.1, after=first),
        ]

    def _samples(self) -> Iterator[JudgePasses]:
        """Decompositions on the samples that torch's own tests have for operators, in all dtypes in turn.

        First come the tests that have an operator's name.
        """
        names = {u.name.split(".")[2] for u in self._units if u.kind is UnitKind.DECOMPOSITION}
        theirs = {part_of_tests(space + name, PARTS) for space in NAMESPACES for name in names}
        for turn in range(TURNS if names else 0):
            drawn = self._shuffled(f"samples {turn}", range(PARTS))
            for part in self._own(sorted(drawn, key=lambda part: part not in theirs)):
                yield self._job(Source(samples=part, turn=turn))

    def _made(self, coded: Sequence[str]) -> Iterator[JudgePasses]:
        """Units on graphs made from their code: whole passes that run by default, rules of one that does, then more
        graphs for the former, the others, and more for all but the former.
        """
        default = {u.name for u in self._units if u.default}
        drawn = self._shuffled("made", coded)
        whole = [name for name in drawn if name in default and "/" not in name]
        rules = [name for name in drawn if name in default and "/" in name]
        others = [name for name in drawn if name not in default]
        for turn, names in ((0, [*whole, *rules]), (1, whole), (0, others), (1, [*rules, *others])):
            for name in self._own(names):
                if name not in self._left_out:
                    yield self._job(Source(made=name, turn=turn))

    def _derivations(self, coded: Sequence[str]) -> Iterator[Derive]:
        """Of what runs by default one entry of each family as it is, then one of each kin with near misses; then all
        others with near misses, one of each kin in turn, those that do not run by default some turns later.
        Entries for training come last: their graphs are large.
        """
        entries = [u for u in self._shuffled("entries", self._units) if u.kind is UnitKind.ENTRY]
        entries = [u for u in entries if u.name not in coded]
        entries.sort(key=lambda unit: (unit.name.endswith("_training"), not unit.default))
        before: Counter[str] = Counter()
        turn: dict[str, int] = {}
        families: dict[str, str] = {}
        for unit in entries:
            if unit.default:
                families.setdefault(family(unit.name), unit.name)
            turn[unit.name] = before[kin(unit.name)] + (0 if unit.default else LATER)
            before[kin(unit.name)] += 1
        near = sorted(turn, key=turn.__getitem__)
        alone = list(families.values())
        for wanted, size, others in ((alone, ENTRIES_ALONE, False), (near, ENTRIES_A_JOB, True)):
            for i in self._own(range(0, len(wanted), size)):
                self._deriving += 1
                yield Derive(0, tuple(wanted[i : i + size]), self._settings.seed, others)

    def _of_seeds(self, modes: Sequence[Mode]) -> Iterator[JudgePasses]:
        """Every seed under each of the modes, in another one each time."""
        for turn in range(len(modes)):
            for i, seed in enumerate(self._shuffled(f"seeds {modes[0]}", self._seeds)):
                yield self._job(Source(seed, modes[(i + turn) % len(modes)]))

    def _own(self, things: Iterable[T]) -> Iterator[T]:
        """Those that are this shard's."""
        shard = self._settings.shard
        return (thing for place, thing in enumerate(things) if shard is None or shard.takes(place))

    def _shuffled(self, what: str, things: Iterable[T]) -> list[T]:
        drawn = list(things)
        random.Random(f"{what} {self._settings.seed}").shuffle(drawn)
        return drawn

    def _variants(self) -> Iterator[JudgePasses]:
        rng = random.Random(f"passes {self._settings.seed}")
        numbers: Counter[str] = Counter()
        while self._settings.rewrites and self._seeds:
            yield self._variant(rng, numbers)

    def _variant(self, rng: random.Random, numbers: Counter[str]) -> JudgePasses:
        weights = [1.0 + ENERGY * self._credit.seeds[s.label] for s in self._seeds]
        seed = rng.choices(self._seeds, weights)[0]
        numbers[seed.label] += 1
        mode = rng.choice((Mode.INFERENCE, Mode.TRAINING, Mode.DYNAMIC))
        return self._job(Source(seed, mode, numbers[seed.label], favour=self._credit.rules))

    def _job(self, source: Source) -> JudgePasses:
        names = tuple(u.name for u in self._units)
        skip = tuple(sorted(self._skip[source.label] | self._left_out))
        source = replace(source, device=self._settings.device)
        return JudgePasses(0, source, names, self._settings.seed, str(self.programs), skip, self._prove)

    def limit(self, job: Any) -> float:
        sampled = isinstance(job, JudgePasses) and job.source.samples is not None
        return DERIVE_SECONDS if sampled or isinstance(job, Derive) else self._settings.case_timeout

    # -- answers ---------------------------------------------------------------

    def recalled(self, job: Any) -> bool:
        return False  # such a run is not resumed

    def hear(self, ended: Ended) -> None:
        job = ended.job
        self._heard += 1
        if isinstance(job, JudgePasses):
            self._judged(job, ended)
        elif isinstance(job, Derive):
            self._made_graphs(job, ended)
        else:
            self._accusations.replayed(job, ended)

    def _made_graphs(self, job: Derive, ended: Ended) -> None:
        self._deriving -= 1
        if ended.value is None:
            self._emit(Warned(f"deriving graphs from {job.entries[0]} and others: {ended.detail or ended.trouble}"))
            return
        derivations, seconds = ended.value
        self._ledger.add_seconds(seconds)
        for derivation in derivations:
            self.tally.derived(derivation)
            told = derivation.entry in self._as_it_is
            self._derived.extend(g for g in derivation.graphs if (g.fires if g.change else not told))
            self._as_it_is.add(derivation.entry)

    def _judged(self, job: JudgePasses, ended: Ended) -> None:
        self._sources += 1
        if ended.value is None:
            unit = ended.phase
            said = f"{ended.trouble} of {unit} on {job.source.label}: {ended.detail}"
            self.tally.crashed(unit, said)
            self._failed += ended.trouble is Trouble.ERROR
            self._emit(Warned(said))
            if ended.trouble == "crash" and unit in {u.name for u in self._units}:
                self._without(unit, job.source)
            return
        judged: PassesJudged
        judged, seconds = ended.value
        self._ledger.add_seconds(seconds)
        self.tally.add(judged)
        self._ledger.add_passes(job.index, job.source.label, to_json(judged))
        seed = job.source.seed
        self._credit.add(seed.label if seed else "", judged.recipe, [p.unit for p in judged.pairs])
        for pair in judged.pairs:
            self._ledger.counts[pair.status.value] += 1
            self._emit(
                UnitFired(
                    pair.unit, pair.source, pair.part, pair.graph, pair.matches, pair.status, pair.kinds, pair.reason,
                    pair.outcome, pair.level, pair.method, pair.unproved, pair.seconds,
                )
            )  # fmt: skip
            if pair.status is Status.FINDING and not _by_an_entry(pair, judged.pairs):
                self._accusations.add(pair)

    def _without(self, unit: str, source: Source) -> None:
        """The source is tried again without the unit that crashed on it, where it has graphs of others too."""
        self._crashes[unit] += 1
        if self._crashes[unit] == CRASHES:
            self._emit(Warned(f"{unit} crashed {CRASHES} times, and is left out of the rest of this run"))
        skipped = self._skip[source.label]
        if source.derived is None and not source.made and len(skipped) < RETRIES:
            skipped.add(unit)
            self._later.append(self._job(source))

    @property
    def _left_out(self) -> set[str]:
        return {unit for unit, times in self._crashes.items() if times >= CRASHES}

    # -- what remains ------------------------------------------------------------

    def end(self) -> None:
        """Tell what whole compiles have not answered; that graphs without end are not all reached, coverage tells."""
        self._accusations.end()
        if self.unjudged:
            self._emit(Warned(f"{self._failed} of {self._sources} jobs of units ended in an error of fxmorph's own"))

    def coverage(self) -> dict[str, Any]:
        return {"passes": self.tally.table(self._units), "sources": self._sources}


def _by_an_entry(pair: Pair, pairs: Sequence[Pair]) -> bool:
    """Whether an entry of the pass shows the same on the same graph."""
    of_it = [p for p in pairs if p.unit.startswith(f"{pair.unit}/") and p.graph == pair.graph]
    return any(p.status is Status.FINDING and p.kinds == pair.kinds for p in of_it)
