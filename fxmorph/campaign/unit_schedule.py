"""The schedule of ``run --pass``: units of Inductor alone, on graphs of seeds, of variants and of units' own patterns.

Sources in order: each seed in inference, between them a graph derived from each chosen pattern entry, and calls of
operators that chosen decompositions take apart, on the samples of torch's own tests; then, in turn with near misses of
the derived graphs, each seed in the other modes and variants of seeds.  A seed whose graphs made units fire for the
first time is drawn more often, and so are rules whose rewrites did.  What a finding was given is then compiled as a
whole, to say whether a program would show it.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fxmorph.campaign import worker
from fxmorph.campaign.accusations import Accusations
from fxmorph.campaign.credit import Credit
from fxmorph.campaign.finding_queue import FindingQueue
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.core.config import Settings
from fxmorph.core.pool import Ended
from fxmorph.core.records import to_json
from fxmorph.core.units import Unit, UnitKind
from fxmorph.events import UnitFired, Warned
from fxmorph.inductor.coverage import Coverage
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.pair_record import Pair, family
from fxmorph.inductor.rung import Mode, PassesJudged, Source
from fxmorph.inductor.sampled_calls import PARTS
from fxmorph.model import Rung, Seed, Status

#: Entries that one job derives graphs from, entries that one derives near misses for, and near misses that a turn
#: of the later rounds judges at most: each takes a quarter of a second, a seed several.
ENTRIES_A_JOB, NEAR_A_JOB, NEAR_A_TURN = 16, 3, 12
#: A seed's weight grows by this for each unit that its graphs made fire first.
ENERGY = 3.0
#: A source is tried again so often without the unit that crashed.
RETRIES = 3
#: CPU seconds for deriving graphs from a few entries, of which one may take 20, and for a part of the samples.
DERIVE_SECONDS = 400.0


class UnitSchedule:
    """The chosen ``units`` on graphs of ``seeds`` and of their own patterns; programs of findings go to a folder of
    the state.
    """

    rung = Rung.PASS
    until = 0.97  # findings need one compile each, made on the way
    unjudged = 0

    def __init__(
        self, settings: Settings, units: Sequence[Unit], seeds: Sequence[Seed], ledger: Ledger, queue: FindingQueue,
        emit: Emit,
    ) -> None:  # fmt: skip
        self._settings, self._units, self._seeds = settings, units, list(seeds)
        self._ledger, self._emit = ledger, emit
        self.tally = Coverage()
        self._credit = Credit()
        #: How many jobs were given out, and how many of them have ended.
        self._issued = self._heard = 0
        #: Graphs to be judged: derived from entries, and near misses of them by entry.
        self._derived: deque[Derived] = deque()
        self._near: deque[deque[Derived]] = deque()
        self._deriving = 0
        self._accusations = Accusations(settings, ledger, queue, emit)
        self._skip: dict[str, set[str]] = defaultdict(set)
        self._later: deque[worker.JudgePasses] = deque()
        self._sources = 0
        #: Where programs of findings lie.
        self.programs = settings.state_dir.resolve() / "programs"

    @property
    def planned(self) -> int | None:
        return None  # how many graphs entries give, and how many parts of samples run, nobody knows before

    @property
    def judged(self) -> int:
        return self.tally.fired

    @property
    def rungs(self) -> dict[str, int]:
        return {self.rung.value: self.judged}

    # -- jobs ------------------------------------------------------------------

    def jobs(self) -> Iterator[Any]:
        planned = itertools.chain(self._first_round(), self._later_rounds())
        while True:
            job = self._urgent(self._issued)
            if job is None:
                try:
                    job = next(planned)
                except StopIteration:
                    return
            if job is None:
                yield None
            else:
                index, self._issued = self._issued, self._issued + 1
                yield replace(job, index=index)

    def _urgent(self, index: int) -> Any:
        """What answers asked for: programs of findings, graphs derived from entries, what a crash cut off."""
        replay = self._accusations.next_replay(index)
        if replay is not None:
            return replay
        if self._derived:
            return self._job(Source(derived=self._derived.popleft()))
        return self._later.popleft() if self._later else None

    def _first_round(self) -> Iterator[Any]:
        """Seeds in inference, with a job that derives graphs, and one on samples, between any two of them."""
        derive, samples = self._derivations(ENTRIES_A_JOB, near=False), self._samples()
        for seed in self._seeds:
            yield from itertools.islice(derive, 1)
            yield from itertools.islice(samples, 1)
            yield self._job(Source(seed, Mode.INFERENCE))
        yield from derive
        yield from samples

    def _samples(self) -> Iterator[worker.JudgePasses]:
        """Decompositions on the samples that torch's own tests have for operators."""
        if any(u.kind is UnitKind.DECOMPOSITION for u in self._units):
            yield from (self._job(Source(samples=part)) for part in range(PARTS))

    def _later_rounds(self) -> Iterator[Any]:
        """Near misses, seeds in other modes and variants in turn; None where answers must come in first."""
        derive = self._derivations(NEAR_A_JOB, near=True)
        modes = [Mode.TRAINING, Mode.FREEZING, Mode.DYNAMIC]
        mixed = ((s, modes[(i + turn) % 3]) for turn in range(3) for i, s in enumerate(self._seeds))
        others = itertools.chain((self._job(Source(s, mode)) for s, mode in mixed), self._variants())
        while True:
            other = next(others, None)
            yield from itertools.islice(derive, 1)
            for near in itertools.islice(self._near_misses(), NEAR_A_TURN):
                yield self._job(Source(derived=near))
            if other is not None:
                yield other
            elif self._deriving or self._heard < self._issued:
                yield None
            elif not self._near:
                return

    def _near_misses(self) -> Iterator[Derived]:
        """Near misses, an entry after the other, without those of a sort that was found often enough."""
        while self._near:
            of_entry = self._near.popleft()
            near = of_entry.popleft()
            if of_entry:
                self._near.append(of_entry)
            if not self._accusations.cover(near):
                yield near

    def _variants(self) -> Iterator[worker.JudgePasses]:
        rng = random.Random(f"passes {self._settings.seed}")
        numbers: Counter[str] = Counter()
        while self._settings.rewrites and self._seeds:
            yield self._variant(rng, numbers)

    def _variant(self, rng: random.Random, numbers: Counter[str]) -> worker.JudgePasses:
        weights = [1.0 + ENERGY * self._credit.seeds[s.label] for s in self._seeds]
        seed = rng.choices(self._seeds, weights)[0]
        numbers[seed.label] += 1
        mode = rng.choice((Mode.INFERENCE, Mode.TRAINING, Mode.DYNAMIC))
        return self._job(Source(seed, mode, numbers[seed.label], favour=self._credit.rules))

    def _derivations(self, size: int, near: bool) -> Iterator[worker.Derive]:
        entries = [u.name for u in self._units if u.kind is UnitKind.ENTRY]
        if near:  # they take longer than there is time: one of each family of patterns first, in any order
            random.Random(f"near {self._settings.seed}").shuffle(entries)
            before: Counter[str] = Counter()
            place = {}
            for name in entries:
                place[name] = before[family(name)]
                before[family(name)] += 1
            entries.sort(key=place.__getitem__)
        for i in range(0, len(entries), size):
            self._deriving += 1
            yield worker.Derive(0, tuple(entries[i : i + size]), self._settings.seed, near)

    def _job(self, source: Source) -> worker.JudgePasses:
        names = tuple(u.name for u in self._units)
        skip = tuple(sorted(self._skip[source.label]))
        return worker.JudgePasses(0, source, names, self._settings.seed, str(self.programs), skip)

    def limit(self, job: Any) -> float:
        sampled = isinstance(job, worker.JudgePasses) and job.source.samples is not None
        return DERIVE_SECONDS if sampled or isinstance(job, worker.Derive) else self._settings.case_timeout

    # -- answers ---------------------------------------------------------------

    def recalled(self, job: Any) -> bool:
        return False  # such a run is not resumed

    def hear(self, ended: Ended) -> None:
        job = ended.job
        self._heard += 1
        if isinstance(job, worker.JudgePasses):
            self._judged(job, ended)
        elif isinstance(job, worker.Derive):
            self._made_graphs(job, ended)
        else:
            self._accusations.replayed(job, ended)

    def _made_graphs(self, job: worker.Derive, ended: Ended) -> None:
        self._deriving -= 1
        if ended.value is None:
            self._emit(Warned(f"deriving graphs from {job.entries[0]} and others: {ended.detail or ended.trouble}"))
            return
        derivations, seconds = ended.value
        self._ledger.add_seconds(seconds)
        for derivation in derivations:
            self.tally.derived(derivation)
            if job.near:
                near = deque(graph for graph in derivation.graphs[1:] if graph.fires)
                self._near.extend([near] if near else [])
            else:
                self._derived.extend(derivation.graphs[:1])

    def _judged(self, job: worker.JudgePasses, ended: Ended) -> None:
        self._sources += 1
        if ended.value is None:
            unit = ended.phase
            said = f"{ended.trouble} of {unit} on {job.source.label}: {ended.detail}"
            self.tally.crashed(unit, said)
            self._emit(Warned(said))
            skipped = self._skip[job.source.label]
            known = unit in {u.name for u in self._units}
            if ended.trouble == "crash" and known and job.source.derived is None and len(skipped) < RETRIES:
                skipped.add(unit)
                self._later.append(self._job(job.source))
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

    # -- what remains ------------------------------------------------------------

    def end(self) -> None:
        """Tell what whole compiles have not answered; that graphs without end are not all reached, coverage tells."""
        self._accusations.end()

    def coverage(self) -> dict[str, Any]:
        return {"passes": self.tally.table(self._units), "sources": self._sources}


def _by_an_entry(pair: Pair, pairs: Sequence[Pair]) -> bool:
    """Whether an entry of the pass shows the same on the same graph."""
    of_it = [p for p in pairs if p.unit.startswith(f"{pair.unit}/") and p.graph == pair.graph]
    return any(p.status is Status.FINDING and p.kinds == pair.kinds for p in of_it)
