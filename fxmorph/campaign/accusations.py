"""What units of Inductor that differ alone are accused of.

Pairs that say the same are one finding; a few of their programs are compiled as a whole before it is told.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fxmorph.campaign import jobs
from fxmorph.campaign.finding_queue import FindingQueue
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.campaign.schedule import case_of, result_of_loss
from fxmorph.core.config import Settings
from fxmorph.core.finding_parts import UnitCase
from fxmorph.core.pool import Ended
from fxmorph.core.seen_differences import unit_seen_before
from fxmorph.core.versions import versions
from fxmorph.events import Warned
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.derive.near_misses import sort_of
from fxmorph.inductor.graphs_from_code import MADE
from fxmorph.inductor.pair_record import Pair, family, kin
from fxmorph.inductor.rung import DERIVED
from fxmorph.model import Case, CaseResult, CompileConfig, Finding, Kind, Rung, Seed, Status, ValuePlan, digest
from fxmorph.triage.blame.culprit import bug_class
from fxmorph.triage.folder.unit_finding import write_pass_finding
from fxmorph.triage.identity import kind_group, strength
from fxmorph.triage.known.likeness import likely_issues

#: How many near misses that one finding speaks of are judged.
SEEN_ENOUGH = 4
#: How many programs of one unit and kind are compiled as a whole; of graphs that were made of its code so many of the
#: same calls, and so many in all until one shows it: what Inductor makes of one call may hide it, and not of another.
REPLAYS, REPLAYS_OF_MADE = 2, 8
#: What a whole compile shows of a unit's fault.
_SHOWN = frozenset(
    {Kind.VALUE, Kind.NONFINITE, Kind.DTYPE, Kind.SHAPE, Kind.MUTATION, Kind.STRUCTURE, Kind.COMPILE_ERROR,
     Kind.RAISES, Kind.CRASH}
)  # fmt: skip

#: Parts of graphs that no program gave.
_MADE_UP = (DERIVED, MADE)

#: Pattern group, sort of change and group of kinds; "" for what a change makes, which is one cause however it shows.
_Key = tuple[Any, ...]


@dataclass
class Accusation:
    """What a finding says of units: the first pair, all its units, and what whole compiles of its programs said.

    Entries of one name that overlook the same sort of change of their patterns are one finding, however it shows:
    ``ways`` are the first pairs by group of kinds.
    """

    pair: Pair
    ways: dict[str, Pair] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    compiled: list[CaseResult] = field(default_factory=list)
    waiting: int = 0
    told: bool = False
    #: Of how many programs of the same calls that is so, or will be.
    _replays: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def takes(self, pair: Pair) -> bool:
        """Whether the program of ``pair`` is to be compiled as a whole, too; then it is counted."""
        so_far = self._replays.total()
        enough = so_far >= REPLAYS
        if pair.part == MADE and not self.shows:
            enough = so_far >= REPLAYS_OF_MADE or self._replays[pair.operations] >= REPLAYS
        if enough or not pair.program or self.told:
            return False
        self._replays[pair.operations] += 1
        self.waiting += 1
        return True

    def better(self, pair: Pair) -> bool:
        """Whether ``pair`` says more than the one so far: a stronger kind, a program, a graph that one gave."""
        now, then = strength(pair.kinds), strength(self.pair.kinds)
        if now != then:
            return now < then
        made_up = self.pair.part in _MADE_UP and pair.part not in _MADE_UP
        return made_up or not self.pair.program

    @property
    def other_ways(self) -> tuple[str, ...]:
        """What else shows it, in words."""
        return tuple(
            f"also {', '.join(pair.kinds)}, on {pair.source}: {pair.reason}"
            for group, pair in self.ways.items()
            if group != kind_group(self.pair.kinds)
        )

    @property
    def shown(self) -> frozenset[Kind]:
        """The kinds of the first whole compile of one of its programs that showed a difference which the unit may
        make; none where none did.
        """
        made = _SHOWN | set(self.pair.kinds)
        found = (frozenset(r.kinds) for r in self.compiled if r.status is Status.FINDING)
        return next((kinds for kinds in found if kinds & made), frozenset())

    @property
    def shows(self) -> bool:
        """Whether a whole compile showed it."""
        return bool(self.shown)

    @property
    def doubtful(self) -> bool:
        """Whether no whole compile shows it, and the graph may be none that a program gives, or the trouble our own:
        what a unit leaves unfinished alone, later ones may finish, as strides, which Inductor mends at the end.
        """
        unfinished = {Kind.RAISES, Kind.SHAPE, Kind.STRIDE}
        return not self.shows and (self.pair.part in _MADE_UP or set(self.pair.kinds) <= unfinished)


class Accusations:
    """Those of a run; what becomes a finding goes to the queue."""

    def __init__(self, settings: Settings, ledger: Ledger, queue: FindingQueue, emit: Emit) -> None:
        self._settings, self._ledger, self._queue, self._emit = settings, ledger, queue, emit
        self._by_key: dict[_Key, Accusation] = {}
        #: Programs to be compiled as a whole, and those that are, by the index of the job.
        self._replays: deque[tuple[_Key, Pair, Case]] = deque()
        #: The same of what the installed torch is known to do.
        self._late_replays: deque[tuple[_Key, Pair, Case]] = deque()
        self._replaying: dict[int, tuple[_Key, Pair]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def cover(self, near: Derived) -> bool:
        """Whether findings say already that patterns like the entry's do not see such a change, or that it is wrong
        without one.
        """
        places = {(family(near.entry), ""), (kin(near.entry), sort_of(near.change))}
        seen = sum(sum(a.units.values()) for (place, sort, _), a in self._by_key.items() if (place, sort) in places)
        return seen >= SEEN_ENOUGH

    def add(self, pair: Pair) -> None:
        """The pair differs."""
        kinds = kind_group(pair.kinds)
        key = (pair.place, pair.sort, "" if pair.sort else kinds)
        without_change = (family(pair.unit), "", kinds)
        if without_change in self._by_key:  # the change is not what it takes
            key = without_change
        accused = self._by_key.setdefault(key, Accusation(pair))
        accused.ways.setdefault(kinds, pair)
        if not accused.told and not accused.shows and accused.better(pair):
            accused.pair = pair
        accused.units[pair.unit] = accused.units.get(pair.unit, 0) + 1
        if not accused.takes(pair):
            if not accused.waiting:
                self._tell(key)
            return
        seed = Seed(path=pair.program, form="module", hash=digest([pair.program, pair.graph], 16))
        case = replace(
            case_of(self._settings, seed, 0, Rung.PASS), plans=(ValuePlan.SEED,), compile=CompileConfig.make()
        )
        known = unit_seen_before(pair.place, pair.sort, pair.kinds)
        (self._late_replays if known else self._replays).append((key, pair, case))

    def next_replay(self, index: int, late: bool) -> jobs.Judge | None:
        """The next program to be compiled as a whole, as the run's job ``index``; ``late``: of what is known too."""
        replays = self._replays or (self._late_replays if late else None)
        if not replays:
            return None
        key, pair, case = replays.popleft()
        self._replaying[index] = key, pair
        return jobs.Judge(index, case)

    def replayed(self, job: jobs.Judge, ended: Ended) -> None:
        """A whole compile ended."""
        key, pair = self._replaying.pop(job.index)
        accused = self._by_key[key]
        accused.waiting -= 1
        result = ended.value.result if ended.value is not None else result_of_loss(job.case, ended)
        self._ledger.add_seconds(result.seconds)
        if not accused.shows and not accused.told:
            accused.pair = pair if not accused.compiled or result.status is Status.FINDING else accused.pair
        accused.compiled.append(result)
        if result.status is Status.FINDING or not accused.waiting:
            self._tell(key)

    def _tell(self, key: _Key) -> None:
        """Write down the finding of a unit and kind, once."""
        accused = self._by_key[key]
        if accused.told or accused.doubtful:
            return
        accused.told = True

        def write(folder: Path, finding: Finding) -> None:
            said = [_in_words(r) for r in accused.compiled]
            write_pass_finding(folder, finding, accused.pair, said, accused.shown, versions())

        self._queue.place(self._finding(key, accused), write)

    def _finding(self, key: _Key, accused: Accusation) -> Finding:
        pair = accused.pair
        # As the backends see it: the unit's name says the rest.
        stage = "decomposition" if pair.unit.startswith("decomposition.") else "inductor"
        id = digest(key, 12)
        finding = Finding(
            id=id, case_id=pair.graph, seed=pair.source, recipe="", kinds=pair.kinds,
            bug_class=bug_class(pair.kinds, stage, pair.unit), stage=stage, unit=pair.unit,
            triangle="seed-miscompiled", fingerprint=id, reason=pair.reason, program="",
            evidence=tuple(filter(None, (
                pair.reason, pair.counterexample, *map(_in_words, accused.compiled), *accused.other_ways,
            ))),
            unit_case=UnitCase(
                Rung.PASS.value, pair.graph, pair.part, pair.plan, pair.change, pair.sort, accused.units,
                pair.operations,
            ),
            units=(pair.unit, *pair.functions),
        )  # fmt: skip
        return replace(finding, likely=likely_issues(finding))

    def end(self) -> None:
        """Tell those whose whole compiles did not all come in, of each all its units, and which are in doubt."""
        for key, accused in self._by_key.items():
            self._tell(key)
            if accused.told:
                self._queue.amend(self._finding(key, accused))
            else:
                pair = accused.pair
                what = f"{', '.join(pair.kinds)} on {pair.source}"
                self._emit(Warned(f"{pair.unit} alone differs, and no whole compile shows it: {what}: {pair.reason}"))


def _in_words(result: CaseResult) -> str:
    if result.status is Status.FINDING:
        return f"compiled as a whole: {', '.join(result.kinds)}: {result.reason}"
    return f"compiled as a whole: {result.status.value}" + (f" ({result.reason})" if result.reason else "")
