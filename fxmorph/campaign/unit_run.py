"""``fxmorph run --pass``: units of Inductor alone, on the graphs of seeds, of variants, and of the units' own patterns.

Sources in order: each seed in inference, between them a graph derived from each chosen pattern entry;
then, in turn with near misses of those graphs, each seed in the other modes and variants of seeds.  A
seed whose graphs made units fire for the first time is drawn more often, and so are rules whose
rewrites did.  What a finding was given is then compiled as a whole, to say whether a program would
show it.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fxmorph.campaign import worker
from fxmorph.campaign.run import Campaign, Emit, version_of, versions
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.finding_parts import UnitCase
from fxmorph.core.pool import Ended
from fxmorph.core.records import to_json
from fxmorph.core.store import Store
from fxmorph.core.units import UnitKind
from fxmorph.events import FindingMade, UnitFired, Warned
from fxmorph.inductor.coverage import Coverage
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.derive.near_misses import sort_of
from fxmorph.inductor.rung import DERIVED, Mode, Pair, PassesJudged, Source, chosen_units, family, kin
from fxmorph.model import CaseResult, CompileConfig, Finding, Kind, Rung, Seed, Status, ValuePlan, digest
from fxmorph.triage.blame.culprit import bug_class
from fxmorph.triage.folder.unit_finding import write_pass_finding
from fxmorph.triage.identity import kind_group

#: Entries that one job derives graphs from, entries that one derives near misses for, and near misses that a turn
#: of the later rounds judges at most: each takes a quarter of a second, a seed several.
ENTRIES_A_JOB, NEAR_A_JOB, NEAR_A_TURN = 16, 3, 12
#: How many near misses that one finding speaks of are judged.
SEEN_ENOUGH = 4
#: How many programs of one unit and kind are compiled as a whole.
REPLAYS = 2
#: A seed's weight grows by this for each unit that its graphs made fire first.
ENERGY = 3.0
#: A source is tried again so often without the unit that crashed.
RETRIES = 3
#: CPU seconds for deriving graphs from a few entries; one of them may take 20.
DERIVE_SECONDS = 400.0
#: What a whole compile shows of a unit's fault.
_SHOWN = frozenset(
    {Kind.VALUE, Kind.NONFINITE, Kind.DTYPE, Kind.SHAPE, Kind.MUTATION, Kind.STRUCTURE, Kind.COMPILE_ERROR,
     Kind.RAISES, Kind.CRASH}
)  # fmt: skip

_Key = tuple[Any, ...]


def run_passes(settings: Settings, emit: Emit) -> int:
    """The campaign of the ``pass`` rung; returns the exit code."""
    if settings.resume:
        raise ConfigError("--resume is not for --pass: its cases take milliseconds; start it anew")
    if settings.device != "cpu" or settings.dtype or settings.context or settings.cases:
        raise ConfigError(
            "--pass runs on the CPU, on seeds as they are: leave out --device, --dtype, --context, --cases"
        )
    with Store(settings.state_dir) as store:
        return PassCampaign(settings, store, emit, None).run()


@dataclass
class _Blamed:
    """What a finding accuses: the first pair, all its units, and what whole compiles of its programs said.

    Entries of one name that overlook the same sort of change of their patterns are one finding.
    """

    pair: Pair
    units: dict[str, int] = field(default_factory=dict)
    compiled: list[CaseResult] = field(default_factory=list)
    waiting: int = 0
    warned: bool = False
    told: bool = False

    @property
    def shows(self) -> bool:
        """Whether a whole compile of one of its programs showed a difference that the unit may make."""
        return any(r.status is Status.FINDING and set(r.kinds) & _SHOWN for r in self.compiled)

    @property
    def doubtful(self) -> bool:
        """Whether no whole compile shows it, and the graph may be none that a program gives, or the trouble our own:
        what a unit leaves unfinished alone, later ones may finish.
        """
        return not self.shows and (self.pair.part == DERIVED or set(self.pair.kinds) <= {Kind.RAISES, Kind.SHAPE})


class PassCampaign(Campaign):
    """One run of the ``pass`` rung on the CPU."""

    cases_until = 0.97  # findings need one compile each, made on the way
    interrupted = "interrupted; the findings told so far are stored"

    def run(self) -> int:
        from fxmorph.inductor.inventory import UnknownUnit

        try:
            self._units = chosen_units(self.settings.passes)
        except UnknownUnit as error:
            raise ConfigError(f"--pass: {error}") from None
        self.tally = Coverage()
        #: Graphs to be judged: derived from entries, and near misses of them by entry.
        self._derived: deque[Derived] = deque()
        self._near: deque[deque[Derived]] = deque()
        self._deriving = 0
        self._replays: deque[tuple[_Key, Pair, worker.Judge]] = deque()
        self._replaying: dict[int, tuple[_Key, Pair]] = {}
        self._blamed: dict[tuple[Any, ...], _Blamed] = {}
        self._skip: dict[str, set[str]] = defaultdict(set)
        self._later: deque[worker.JudgePasses] = deque()
        self._sources = 0
        self._programs = self.settings.state_dir.resolve() / "programs"
        shutil.rmtree(self._programs, ignore_errors=True)
        return super().run()

    def _rung(self) -> Rung:
        return Rung.PASS

    # -- jobs ------------------------------------------------------------------

    def _order(self) -> Iterator[Any]:
        planned = itertools.chain(self._first_round(), self._later_rounds())
        index = 0
        while True:
            job = self._urgent(index)
            if job is None:
                try:
                    job = next(planned)
                except StopIteration:
                    return
            if job is None:
                yield None
            else:
                yield replace(job, index=index)
                index += 1

    def _urgent(self, index: int) -> Any:
        """What answers asked for: programs of findings, graphs derived from entries, what a crash cut off."""
        if self._replays:
            key, pair, job = self._replays.popleft()
            self._replaying[index] = key, pair
            return job
        if self._derived:
            return self._job(Source(derived=self._derived.popleft()))
        return self._later.popleft() if self._later else None

    def _first_round(self) -> Iterator[Any]:
        """Seeds in inference, with a job that derives graphs between any two of them."""
        derive = self._derivations(ENTRIES_A_JOB, near=False)
        for seed in self._seeds:
            yield from itertools.islice(derive, 1)
            yield self._job(Source(seed, Mode.INFERENCE))
        yield from derive

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
            elif self._deriving or self._pool.busy:
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
            if not self._overlooked(near):
                yield near

    def _overlooked(self, near: Derived) -> bool:
        """Whether findings say already that patterns like the entry's do not see such a change, or that it is wrong
        without one.
        """
        places = {(family(near.entry), ""), (kin(near.entry), sort_of(near.change))}
        seen = sum(sum(b.units.values()) for (place, sort, _), b in self._blamed.items() if (place, sort) in places)
        return seen >= SEEN_ENOUGH

    def _variants(self) -> Iterator[worker.JudgePasses]:
        rng = random.Random(f"passes {self.settings.seed}")
        numbers: Counter[str] = Counter()
        while self.settings.rewrites and self._seeds:
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
            random.Random(f"near {self.settings.seed}").shuffle(entries)
            before: Counter[str] = Counter()
            place = {}
            for name in entries:
                place[name] = before[family(name)]
                before[family(name)] += 1
            entries.sort(key=place.__getitem__)
        for i in range(0, len(entries), size):
            self._deriving += 1
            yield worker.Derive(0, tuple(entries[i : i + size]), self.settings.seed, near)

    def _job(self, source: Source) -> worker.JudgePasses:
        names = tuple(u.name for u in self._units)
        skip = tuple(sorted(self._skip[source.label]))
        return worker.JudgePasses(0, source, names, self.settings.seed, str(self._programs), skip)

    def _done_before(self, job: Any) -> bool:
        return False

    def _limit(self, job: Any) -> float:
        return DERIVE_SECONDS if isinstance(job, worker.Derive) else super()._limit(job)

    # -- answers ---------------------------------------------------------------

    def _ended(self, ended: Ended) -> None:
        job = ended.job
        if isinstance(job, worker.JudgePasses):
            self._judged(job, ended)
        elif isinstance(job, worker.Derive):
            self._deriving -= 1
            if ended.value is None:
                self.emit(Warned(f"deriving graphs from {job.entries[0]} and others: {ended.detail or ended.trouble}"))
                return
            derivations, seconds = ended.value
            self._add_seconds(seconds)
            for derivation in derivations:
                self.tally.derived(derivation)
                if job.near:
                    near = deque(graph for graph in derivation.graphs[1:] if graph.fires)
                    self._near.extend([near] if near else [])
                else:
                    self._derived.extend(derivation.graphs[:1])
        elif isinstance(job, worker.Judge):
            self._replayed(job, ended)
        else:
            super()._ended(ended)

    def _judged(self, job: worker.JudgePasses, ended: Ended) -> None:
        self._sources += 1
        if ended.value is None:
            unit = ended.phase
            said = f"{ended.trouble} of {unit} on {job.source.label}: {ended.detail}"
            self.tally.crashed(unit, said)
            self.emit(Warned(said))
            skipped = self._skip[job.source.label]
            known = unit in {u.name for u in self._units}
            if ended.trouble == "crash" and known and job.source.derived is None and len(skipped) < RETRIES:
                skipped.add(unit)
                self._later.append(self._job(job.source))
            return
        judged: PassesJudged
        judged, seconds = ended.value
        self._add_seconds(seconds)
        self.tally.add(judged)
        self.store.add_passes(self._run_id, job.index, job.source.label, to_json(judged))
        seed = job.source.seed
        self._credit.add(seed.label if seed else "", judged.recipe, [p.unit for p in judged.pairs])
        for pair in judged.pairs:
            self.counts[pair.status.value] += 1
            self.emit(
                UnitFired(
                    pair.unit, pair.source, pair.part, pair.graph, pair.matches, pair.status, pair.kinds, pair.reason,
                    pair.outcome, pair.level, pair.method, pair.unproved, pair.seconds,
                )
            )  # fmt: skip
            if pair.status is Status.FINDING and not _by_an_entry(pair, judged.pairs):
                self._accuse(pair)

    def _accuse(self, pair: Pair) -> None:
        kinds = kind_group(pair.kinds)
        key = (pair.place, pair.sort, kinds)
        without_change = (family(pair.unit), "", kinds)
        if without_change in self._blamed:  # the change is not what it takes
            key = without_change
        blamed = self._blamed.setdefault(key, _Blamed(pair))
        made_up = blamed.pair.part == DERIVED and pair.part != DERIVED
        if not blamed.told and not blamed.shows and (made_up or not blamed.pair.program):
            blamed.pair = pair
        blamed.units[pair.unit] = blamed.units.get(pair.unit, 0) + 1
        if not pair.program or len(blamed.compiled) + blamed.waiting >= REPLAYS:
            if not blamed.waiting:
                self._tell(key)
            return
        blamed.waiting += 1
        seed = Seed(path=pair.program, form="module", hash=digest([pair.program, pair.graph], 16))
        case = replace(self._case(seed, 0), plans=(ValuePlan.SEED,), compile=CompileConfig.make())
        self._replays.append((key, pair, worker.Judge(0, case)))

    def _replayed(self, job: worker.Judge, ended: Ended) -> None:
        key, pair = self._replaying.pop(job.index)
        blamed = self._blamed[key]
        blamed.waiting -= 1
        result = ended.value.result if ended.value is not None else self._trouble(job.case, ended)
        self._add_seconds(result.seconds)
        if not blamed.shows and not blamed.told:
            blamed.pair = pair if not blamed.compiled or result.status is Status.FINDING else blamed.pair
        blamed.compiled.append(result)
        if result.status is Status.FINDING or not blamed.waiting:
            self._tell(key)

    def _tell(self, key: tuple[Any, ...]) -> None:
        """Write down the finding of a unit and kind, once."""
        blamed = self._blamed[key]
        if blamed.told:
            return
        if blamed.doubtful:
            if not blamed.warned:
                blamed.warned = True
                pair = blamed.pair
                what = f"{', '.join(pair.kinds)} on {pair.source}"
                self.emit(Warned(f"{pair.unit} alone differs, and no whole compile shows it: {what}: {pair.reason}"))
            return
        blamed.told = True
        finding = self._pass_finding(key, blamed)
        known = self._known.match(finding, version_of("torch"))
        if known or finding.fingerprint in self._baseline:
            finding = replace(finding, known=known or "baseline")
            self.known += 1
        folder = self._folder(finding)
        said = [_in_words(r) for r in blamed.compiled]
        write_pass_finding(folder, finding, blamed.pair, said, blamed.shows, versions())
        self.store.add_finding(self._run_id, finding, str(folder))
        self.findings[finding.fingerprint] = finding
        self.emit(FindingMade(finding, str(folder), finding.known, ""))

    def _pass_finding(self, key: _Key, blamed: _Blamed) -> Finding:
        pair = blamed.pair
        # As the backends see it: the unit's name says the rest.
        stage = "decomposition" if pair.unit.startswith("decomposition.") else "inductor"
        id = digest(key, 12)
        return Finding(
            id=id, case_id=pair.graph, seed=pair.source, recipe="", kinds=pair.kinds,
            bug_class=bug_class(pair.kinds, stage, pair.unit), stage=stage, unit=pair.unit,
            triangle="seed-miscompiled", fingerprint=id, reason=pair.reason, program="",
            evidence=tuple(filter(None, (pair.reason, pair.counterexample, *map(_in_words, blamed.compiled)))),
            unit_case=UnitCase(
                Rung.PASS.value, pair.graph, pair.part, pair.plan, pair.change, pair.sort, blamed.units,
                pair.operations,
            ),
        )  # fmt: skip

    # -- after -----------------------------------------------------------------

    def _tell_unreached(self) -> None:
        """Nothing: that graphs without end are not all reached is told by the coverage."""

    def _exit_code(self) -> int:
        for key, blamed in self._blamed.items():
            self._tell(key)
            if not blamed.told:
                continue
            finding = self._pass_finding(key, blamed)  # with all units by now
            known = self.findings[finding.fingerprint].known
            self.store.add_finding(self._run_id, replace(finding, known=known), str(self._folder(finding)))
        return super()._exit_code()

    @property
    def _judged_so_far(self) -> int:
        return self.tally.fired

    def _coverage(self) -> dict[str, Any]:
        return {"passes": self.tally.table(self._units), "sources": self._sources}


def _by_an_entry(pair: Pair, pairs: Sequence[Pair]) -> bool:
    """Whether an entry of the pass shows the same on the same graph."""
    of_it = [p for p in pairs if p.unit.startswith(f"{pair.unit}/") and p.graph == pair.graph]
    return any(p.status is Status.FINDING and p.kinds == pair.kinds for p in of_it)


def _in_words(result: CaseResult) -> str:
    if result.status is Status.FINDING:
        return f"compiled as a whole: {', '.join(result.kinds)}: {result.reason}"
    return f"compiled as a whole: {result.status.value}" + (f" ({result.reason})" if result.reason else "")
