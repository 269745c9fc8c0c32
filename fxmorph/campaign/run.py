"""A campaign: cases in a fixed order, given to workers, results stored as they come.

The order is a function of the seeds and the campaign seed alone: every seed as it is, then
variant 1 of every clean seed, variant 2, and so on.  A run that time limits is a prefix of
it (but for cases in flight).  With proposals every other case after the seeds is one of theirs, by what
has fired in whole turns (``ideas.py``); where a language model is asked, it hangs on the answers too.

This process never imports torch's compiler; it plans, stores and tells.  It is the only writer
of the store.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from math import isfinite
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from fxmorph.campaign import worker
from fxmorph.campaign.case_list import read_list
from fxmorph.campaign.credit import Credit
from fxmorph.campaign.ideas import Idea, Ideas, promising
from fxmorph.campaign.resume import unfinished
from fxmorph.core.clock import Clock
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.finding_parts import Draw, Reduced, Repro
from fxmorph.core.pool import Ended, Pool
from fxmorph.core.seeds import find_seeds
from fxmorph.core.store import PAGE, Store
from fxmorph.events import CaseDone, Checked, Event, FindingMade, Progress, RunFinished, RunStarted, SeedRefused, Warned
from fxmorph.judge.plans import PLANS, RELAID_EVERY, plans_of, threads_of
from fxmorph.model import (
    RESHAPES,
    Case,
    CaseResult,
    CompileConfig,
    Finding,
    GraphLevel,
    Kind,
    Level,
    Recipe,
    RewriteProof,
    Rung,
    Seed,
    Status,
    ValuePlan,
    digest,
)
from fxmorph.oracle import load_oracles
from fxmorph.propose.admitted import rules_with
from fxmorph.rules import PROPOSED
from fxmorph.torchapi.compiling import check_settings, cpp_compiler
from fxmorph.triage.blame.culprit import bug_class
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.folder.confirm import write_finding
from fxmorph.triage.identity import checked_fingerprint, fingerprint, one_cause
from fxmorph.triage.known import load_known

if TYPE_CHECKING:
    from fxmorph.propose.model.stall import Stalled

Emit = Callable[[Event], None]

#: Share of the budget that investigating findings may take: of what was spent so far while cases are left, then
#: of all of it.  What it does not reach waits for ``fxmorph reduce``.
INVESTIGATE_SHARE = 0.25
#: Of the other variants, one of about so many gets inputs of other sizes or ranks.
RESHAPED_EVERY = 4
#: A rule is left out of later rounds after this many findings with it, if they are this share of its variants.
WORN_FINDINGS, WORN_SHARE = 2, 0.5
#: CPU seconds for a repro in fresh processes.
CONFIRM_SECONDS = 300.0
#: More harness errors than this share of the cases (and more than 3) fail the run.
TOO_MANY_ERRORS = 0.2
#: The compile cache is emptied between runs when it passes this many MiB.
CACHE_MIB = 2048

OK, FINDINGS, USAGE, INTERNAL, UNSOUND, NOTHING_RAN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def run_campaign(settings: Settings, emit: Emit) -> int:
    """``fxmorph run``; returns the exit code."""
    with Store(settings.state_dir) as store:
        resumed = None
        if settings.resume:
            resumed, settings = unfinished(store, settings)
        return _on_each_device(settings, store, emit, resumed)


def check_seeds(settings: Settings, emit: Emit) -> int:
    """``fxmorph check``: each seed as it is, one ``checked`` line each; returns the exit code."""
    settings = replace(settings, rewrites=False)
    with Store(settings.state_dir) as store:
        return _on_each_device(settings, store, emit, None, check=True)


def _on_each_device(settings: Settings, store: Store, emit: Emit, resumed: str | None, check: bool = False) -> int:
    """A campaign on each device, in turn, the first of which may be ``resumed``.

    Raises :class:`ConfigError` before any where a device is not there.
    """
    from fxmorph.torchapi.devices import missing

    for device in settings.devices:
        if missing(device):
            raise ConfigError(missing(device))
    code = OK
    for device in settings.devices:
        one = replace(settings, device=device)
        campaign = Campaign(one, store, emit, resumed, check, with_cuda="cuda" in settings.devices)
        code, resumed = _worse(code, campaign.run()), None
        if code == INTERRUPTED:
            break
    return code


def _worse(a: int, b: int) -> int:
    order = (INTERRUPTED, INTERNAL, UNSOUND, FINDINGS, NOTHING_RAN, OK)
    return next((c for c in order if c in (a, b)), max(a, b))


@dataclass
class _Found:
    """A case that stands after the ladder, waiting to be investigated."""

    index: int
    case: Case
    result: CaseResult
    manner: worker.Manner = worker.Manner.HERE

    def novelty(self) -> tuple[Any, ...]:
        return (self.result.kinds, self.result.stage, self.case.seed.hash if not self.result.recipe else "")


@dataclass
class Campaign:
    """One run on one device."""

    #: No new case starts after this share of the budget; what is left goes to findings.
    cases_until: ClassVar[float] = 0.85
    interrupted: ClassVar[str] = "interrupted; what was judged is stored, go on with --resume"
    #: CPU seconds for blaming and reducing one finding.
    investigate_seconds: ClassVar[float] = 60.0
    #: Fresh processes that must show a finding.
    confirmations: ClassVar[int] = 1

    settings: Settings
    store: Store
    emit: Emit
    resumed: str | None
    check: bool = False
    with_cuda: bool = False
    results: dict[int, CaseResult] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    found: deque[_Found] = field(default_factory=deque)
    findings: dict[str, Finding] = field(default_factory=dict)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    duplicates: int = 0
    known: int = 0
    investigated: Counter[Any] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._credit = Credit()
        #: Cases that were given an index.
        self._issued = 0
        self._asked: Stalled | None = None
        #: Rules that variants are rather made by.
        self._favoured: tuple[str, ...] = ()
        #: Hashes of the seeds that are proposals'.
        self._of_proposals: set[str] = set()
        #: So many results are in the credit: those of whole turns, so that it does not depend on the workers.
        self._credited = 0
        self._label: dict[int, str] = {}
        #: Cases that differ and that no finding is confirmed of (yet), each a finding as it was seen.
        self._seen: dict[str, Finding] = {}
        self._concluded: set[str] = set()
        #: Seeds of which an error alone is known.
        self._unjudged = 0
        #: Fingerprints of what ``check`` found and no baseline lists.
        self._differing: list[str] = []
        #: The rewrites that each finding so far was reduced to.
        self._needed: set[frozenset[str]] = set()
        self._to_confirm: deque[worker.Confirm] = deque()
        #: Fingerprints being confirmed, with the other findings that have them.
        self._confirming: dict[str, list[Finding]] = {}
        #: Fingerprints by group of what was reduced.
        self._groups: dict[str, str] = {}

    def run(self) -> int:
        """The whole run; raises the errors of its parts, which are one line each."""
        s = self.settings
        self._clock = Clock(since_birth=not self.resumed)
        self._started = time.monotonic()
        self._seeds, refusals = find_seeds(list(s.paths), regressions=s.all)
        self._listed: list[Case] | None = None
        self._packs = self._pack_folders()
        self._rules = rules_with(self._packs, [Path(p) for p in s.transforms])
        self._ideas = Ideas()
        self._proposed(self._packs)
        load_oracles()
        self._known = load_known()
        self._baseline = _baseline(s.baseline)
        self._preflight()
        if s.cases is not None:
            some = Seed(path=s.cases, form="", hash="")
            self._listed = read_list(Path(s.cases), replace(self._case(some, 0), plans=(*PLANS, ValuePlan.RESEED)))
            self._seeds = list(dict.fromkeys(case.seed for case in self._listed))
        self._run_id = self.resumed or self.store.create_run(s, self._header())
        self._done = self.store.results(self._run_id) if self.resumed else {}
        stored = self.store.findings(self._run_id, duplicates=True) if self.resumed else []
        self._seen = {f.case_id: f for f in stored if not f.confirmed}
        stored = [f for f in stored if f.confirmed]
        self._concluded = {f.case_id for f in stored}
        self.findings = {f.fingerprint: f for f in stored if f.id == f.fingerprint}
        self.known = sum(bool(f.known) for f in self.findings.values())
        self._cache = s.state_dir.resolve() / "cache" / f"{version_of('torch')}-{s.device}"
        self._prepare_cache()
        self._announce()
        for refusal in refusals:
            self.store.add_refusal(self._run_id, refusal.path, refusal.reason)
            checked = Checked(refusal.path, Status.ERROR, reason=refusal.reason)
            self.emit(checked if self.check else SeedRefused(refusal.path, refusal.reason))
            self.counts["refused"] += 1
        if not self._seeds:
            return self._finish(self._exit_code())
        # Forked workers inherit the environment: how many threads they have is theirs to say, not OpenMP's.
        os.environ.update(
            OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE", TORCHINDUCTOR_COMPILE_THREADS="1",
            TORCHINDUCTOR_CACHE_DIR=str(self._cache),
        )  # fmt: skip
        (s.state_dir / "workers.log").write_text("")
        if s.propose:
            from fxmorph.propose.model.stall import Stalled

            self._asked = Stalled.of(s, self.store, self._run_id, self.emit)
        try:
            # The compiler's modules touch CUDA when imported, and CUDA does not survive a fork.
            preload = ["fxmorph.campaign.worker"] if s.devices == ("cpu",) and not self.with_cuda else []
            with Pool(s.effective_jobs, worker.serve, self._workers_arguments(), preload) as pool:
                self._pool = pool
                self._loop()
                self.seconds["start"] += pool.server_cpu()
        except KeyboardInterrupt:
            self.emit(Warned(self.interrupted))
            return self._finish(INTERRUPTED)
        return self._finish(self._exit_code())

    # -- before ----------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        s = self.settings
        return {"torch": version_of("torch"), "device": s.device, "seed": s.seed, "packs": [*map(str, self._packs)]}

    def _workers_arguments(self) -> tuple[Any, ...]:
        state = self.settings.state_dir.resolve()
        return (
            [str(Path(p).resolve()) for p in self.settings.transforms],
            str(self._cache),
            str(state / "workers.log"),
            str(state / "proofs"),
            [str(p.resolve()) for p in self._packs],
        )

    def _preflight(self) -> None:
        """Refuse what cannot work, in one line, before anything is started."""
        s = self.settings
        try:
            check_settings(self._config())
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if s.device != "cuda" and s.backend == "inductor" and cpp_compiler() is None:
            raise ConfigError(
                "no C++ compiler found, and Inductor needs one on CPU: install g++ (apt install g++) or set CXX,"
                " or choose --backend aot_eager"
            )

    def _prepare_cache(self) -> None:
        size = sum(f.stat().st_size for f in self._cache.rglob("*") if f.is_file()) if self._cache.exists() else 0
        if size > CACHE_MIB * 2**20:
            shutil.rmtree(self._cache, ignore_errors=True)
        self._cache.mkdir(parents=True, exist_ok=True)

    def _announce(self) -> None:
        s = self.settings
        notes = [f"resuming run {self._run_id}: {len(self._done)} cases are done"] if self.resumed else []
        if self._packs:
            proposed = sum(rule.family == PROPOSED for rule in self._rules)
            seeds = len(self._of_proposals)
            notes.append(f"of proposals: {proposed} rules, {seeds} seeds, {len(self._ideas) - seeds} recipes")
        versions = {"fxmorph": version_of("fxmorph"), "torch": version_of("torch"), "python": sys.version.split()[0]}
        self.emit(
            RunStarted(
                run_id=self._run_id,
                seed=s.seed,
                torch=version_of("torch"),
                device=s.device,
                rungs=(self._rung().value,),
                versions=versions,
                budget_s=s.max_time if isfinite(s.max_time) else None,
                jobs=s.effective_jobs,
                seeds=len(self._seeds),
                rules=len(self._rules) if s.rewrites else 0,
                state_dir=s.state,
                notes=tuple(notes),
                command="check" if self.check else "run",
            )
        )

    def _rung(self) -> Rung:
        return Rung.CUDA if self.settings.device == "cuda" else Rung.CPU

    def _config(self) -> CompileConfig:
        s = self.settings
        return CompileConfig.make(s.backend, dict(s.compile), dict(s.inductor), dict(s.dynamo))

    # -- the order of cases ----------------------------------------------------

    def _case(self, seed: Seed, number: int, avoid: tuple[str, ...] = ()) -> Case:
        s = self.settings
        return Case(
            seed=seed,
            number=number,
            campaign_seed=s.seed,
            plans=plans_of(s, seed, number),
            compile=self._config(),
            rung=self._rung(),
            device=s.device,
            level=GraphLevel(s.level),
            avoid=avoid,
            favour=self._favoured,
            torch=version_of("torch"),
            dtype=s.dtype,
            context=s.context,
            relaid=number % RELAID_EVERY == 0 and number > 0,
            reshaped=self._reshaped(seed, number),
            threads=s.threads or 1,
        )

    def _reshaped(self, seed: Seed, number: int) -> str:
        """Of variants whose inputs keep their layout."""
        drawn = int(digest([self.settings.seed, seed.hash, number]), 16)
        if number % RELAID_EVERY == 0 or drawn % RESHAPED_EVERY or self.check:
            return ""
        return RESHAPES[drawn // RESHAPED_EVERY % len(RESHAPES)]

    def _order(self) -> Iterator[Any]:
        """Jobs, each with an ``index``, in order; None where the results so far must come in first."""
        for entry in self._cases():
            yield None if entry is None else worker.Judge(*entry)

    def _cases(self) -> Iterator[tuple[int, Case] | None]:
        if self._listed is not None:
            yield from enumerate(self._listed)
            return
        #: Seeds that are judged as they are, by the index of that case.
        begun: dict[int, Seed] = {}
        for seed in self._seeds:
            if seed.hash not in self._of_proposals or not self.settings.rewrites:
                begun[self._issued] = seed
                yield self._next(self._case(seed, 0))
        if not self.settings.rewrites:
            return
        usable: list[Seed] = []
        numbers: Counter[str] = Counter()
        for turn in itertools.count(1):
            yield from self._everything_in()
            # A seed that is miscompiled as it is would only show the same thing again.
            usable += [seed for index, seed in begun.items() if _rewritable(self.results[index])]
            begun.clear()
            earned = self._earned()
            if turn > 1 and not earned:
                self._ask(turn)
            avoid = self._worn_out()
            self._favoured = (*self._credit.rules, *promising(self._rules, self._credit.units))
            seeds = self._turn(turn, usable, earned if turn > 1 else set())
            ideas = self._ideas.next(max(len(seeds), 1), self._credit.units)
            if not seeds and not ideas:
                return
            for seed, idea in itertools.zip_longest(seeds, ideas):
                if seed is not None:
                    numbers[seed.label] += 1
                    yield self._next(self._case(seed, numbers[seed.label], avoid))
                what = idea.what if idea is not None else None
                if isinstance(what, Seed):
                    begun[self._issued] = what
                    yield self._next(self._case(what, 0))
                elif what is not None:
                    for named in what.among(usable):
                        # What was proposed was tried on the seed's own inputs.
                        yield self._next(replace(self._case(named, 1), chain=what.steps, reshaped=""))

    def _next(self, case: Case) -> tuple[int, Case]:
        index, self._issued = self._issued, self._issued + 1
        return index, replace(case, threads=threads_of(self.settings, index))

    def _everything_in(self) -> Iterator[None]:
        """Wait until the results of all cases so far are there."""
        while len(self.results) < self._issued:
            yield None

    def _earned(self) -> set[str]:
        """The seeds whose programs made units fire first since it was last asked."""
        earned = set()
        for index in range(self._credited, len(self.results)):
            result, label = self.results[index], self._label[index]
            if self._credit.add(label, result.recipe, result.fired):
                earned.add(label)
        self._credited = len(self.results)
        return earned

    def _turn(self, number: int, usable: Sequence[Seed], earned: set[str]) -> list[Seed]:
        """The seeds in an order drawn for this turn; those that made units fire first in the last turn come twice."""
        shuffled = [*usable, *(seed for seed in usable if seed.label in earned)]
        random.Random(f"order {self.settings.seed} {number}").shuffle(shuffled)
        return shuffled

    def _ask(self, turn: int) -> None:
        """Take what a language model proposes, where one is asked."""
        if self._asked is None:
            return
        with self._clock.activity("propose"):
            pack = self._asked.pack(turn, self._credit.units, self.settings.max_time - self._elapsed)
        if pack is None:
            return
        self._packs.append(pack)
        self._rules = rules_with(self._packs, [Path(p) for p in self.settings.transforms])
        self._proposed([pack])
        self._pool.renew(self._workers_arguments())
        self.store.set_header(self._run_id, self._header())

    def _pack_folders(self) -> list[Path]:
        """Folders of proposals that the run takes; what reads them is imported by runs that do."""
        s = self.settings
        if not (s.propose or (s.all and not self.check)):
            return []
        from fxmorph.propose.gate.outcomes import pack_folders

        return pack_folders(s.paths)

    def _proposed(self, packs: Sequence[Path]) -> None:
        """Take the admitted seeds and recipes of ``packs``."""
        if not packs:
            return
        from fxmorph.propose.admitted import admitted_chains, write_seeds

        folder = self.settings.state_dir / "proposed"
        fires = write_seeds(self._packs, folder)
        known = {seed.hash for seed in self._seeds}
        seeds = [seed for seed in find_seeds([str(folder)])[0] if seed.hash not in known]
        self._seeds += seeds
        self._of_proposals |= {seed.hash for seed in seeds}
        self._ideas.add(Idea(seed, fires[Path(seed.path).name]) for seed in seeds)
        self._ideas.add(Idea(chain, fires) for place in packs for chain, fires in admitted_chains(place))

    def _worn_out(self) -> tuple[str, ...]:
        """Rules whose variants mostly differ (they show one fault again and again, and hide others), and unsound ones.

        Taken from whole rounds only, so that it does not depend on the number of workers.
        """
        used: Counter[str] = Counter()
        differ: Counter[str] = Counter()
        unsound: set[str] = set()
        for result in self.results.values():
            for name in {r.rule for r in Recipe.parse(result.recipe).rewrites} if result.recipe else ():
                used[name] += 1
                differ[name] += result.status is Status.FINDING
                if result.status is Status.UNSOUND_REWRITE:
                    unsound.add(name)
        worn = {n for n, k in differ.items() if k >= WORN_FINDINGS and k >= WORN_SHARE * used[n]}
        return tuple(sorted(worn | unsound))

    # -- the loop --------------------------------------------------------------

    @property
    def _judged_so_far(self) -> int:
        return len(self.results)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _loop(self) -> None:
        s = self.settings
        order = self._order()
        waiting: Any = None
        exhausted = False
        told = 0.0
        self._spent = 0.0
        while True:
            elapsed = self._elapsed
            case_time = elapsed < s.max_time * (self.cases_until if not self.check else 1.0)
            while self._pool.idle and elapsed < s.max_time:
                if self._to_confirm:
                    self._pool.submit(self._to_confirm.popleft(), CONFIRM_SECONDS)
                    continue
                if self._wants_investigation(case_time and not exhausted):
                    self._investigate_next()
                    continue
                if not case_time or exhausted:
                    break
                if waiting is None:
                    try:
                        waiting = next(order)
                    except StopIteration:
                        exhausted = True
                    if waiting is None:
                        break
                if s.max_cases is not None and waiting.index >= s.max_cases:
                    exhausted = True
                    break
                job, waiting = waiting, None
                if not self._done_before(job):
                    self._pool.submit(job, self._limit(job))
            if not self._pool.busy and (elapsed >= s.max_time or not case_time or exhausted) and not self._to_do():
                break
            if elapsed >= s.max_time:
                break
            for ended in self._pool.ended(timeout=0.5):
                self._ended(ended)
            if self._elapsed - told > 1.0:
                told = self._elapsed
                self._tell_progress(case_time)
        self._tell_unreached()
        left = len(self._seen) - self.counts["unconfirmed"]
        if left > 0:
            self.counts["uninvestigated"] = left
            why = "differing cases were not investigated to the end for lack of time; `fxmorph reduce` does"
            self.emit(Warned(f"{left} {why}"))

    def _tell_unreached(self) -> None:
        """Say which seeds were not judged as they are: nothing is known of them.

        Where --max-cases ended the run that is what was asked for.
        """
        judged = {self._label[index] for index in self.results}
        enough = self.settings.max_cases is not None and self._judged_so_far >= self.settings.max_cases
        left = [s.label for s in self._seeds if s.label not in judged and s.hash not in self._of_proposals]
        if not left or enough or self._listed is not None:
            return
        self.counts["unreached"] = len(left)
        if self.check:
            for label in left:
                self.emit(Checked(label, Status.SKIPPED, reason="not reached within --max-time"))
            return
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        self.emit(Warned(f"not judged within --max-time: {', '.join(left[:3])}{more}"))

    def _done_before(self, job: worker.Judge) -> bool:
        """Whether a resumed run has the job's result already, which is then taken."""
        stored = self._done.get(job.case.id)
        if stored is not None:
            self._take(job.index, job.case, stored, stored=True)
        return stored is not None

    def _limit(self, job: Any) -> float:
        """CPU seconds that the job may take."""
        return self.settings.case_timeout

    def _to_do(self) -> bool:
        wants = bool(self._to_confirm) or self._wants_investigation(cases_left=False)
        return wants and self._elapsed < self.settings.max_time

    def _wants_investigation(self, cases_left: bool) -> bool:
        if not self.found or self.check:
            return False
        if not cases_left:
            return self._spent < INVESTIGATE_SHARE * self.settings.max_time * self.settings.effective_jobs
        if all(map(self._looks_known, self.found)):
            return False  # their time comes when no case is left
        return self._spent <= INVESTIGATE_SHARE * max(sum(self.seconds.values()), 1.0)

    def _looks_known(self, found: _Found) -> bool:
        """Whether the recipe holds all rewrites that an earlier finding was reduced to."""
        rules = {r.rule for r in Recipe.parse(found.result.recipe).rewrites}
        return any(needed <= rules for needed in self._needed)

    def _investigate_next(self) -> None:
        """The finding least like those already looked at goes first."""
        best = min(self.found, key=lambda f: (self._looks_known(f), self.investigated[f.novelty()], f.index))
        self.found.remove(best)
        self.investigated[best.novelty()] += 1
        job = worker.Investigate(
            best.index, best.case, best.result, self.investigate_seconds, tuple(self._groups), best.manner
        )
        self._pool.submit(job, self.investigate_seconds * 4)

    def _tell_progress(self, case_time: bool) -> None:
        s = self.settings
        left = max(s.max_time - self._elapsed, 0.0)
        planned = s.max_cases if s.max_cases is not None else (len(self._seeds) if not s.rewrites else None)
        phase = "judging" if case_time else "investigating findings"
        self.emit(Progress(self._judged_so_far, planned, len(self._new), self._elapsed, left, phase))

    # -- results ---------------------------------------------------------------

    def _ended(self, ended: Ended) -> None:
        job = ended.job
        if isinstance(job, worker.Judge):
            judged = ended.value or worker.Judged(self._trouble(job.case, ended))
            with self._clock.activity("store"):
                self.store.add_result(self._run_id, job.index, job.case, judged.result)
            self._take(job.index, job.case, judged.result, stored=False, found=judged.found)
        elif isinstance(job, worker.Investigate):
            self._conclude(job, ended)
        elif isinstance(job, worker.Confirm):
            self._confirmed(job, ended)

    def _trouble(self, case: Case, ended: Ended) -> CaseResult:
        """The result of a case that took its worker with it, or that the harness failed on."""
        seconds = ((ended.phase or "start", ended.cpu),)
        in_compiler = ended.phase in ("compile",)
        if ended.trouble == "error":
            if ended.detail.startswith("toolchain: "):
                raise ConfigError(f"{ended.detail.removeprefix('toolchain: ')} (see `fxmorph doctor`)")
            return CaseResult(case.id, Status.ERROR, reason=f"harness: {ended.detail}")
        kind = Kind.CRASH if ended.trouble == "crash" else Kind.TIMEOUT
        where = "compiled program or compiler" if in_compiler else f"{ended.phase or 'start'} (not compiled code)"
        reason = f"{ended.trouble} in {where}: {ended.detail}"
        status = Status.FINDING if in_compiler and kind is Kind.CRASH else Status.INCONCLUSIVE
        if not in_compiler:
            status = Status.ERROR
        kinds = (kind,) if status is Status.FINDING else ()
        stage = "inductor" if status is Status.FINDING else ""
        return CaseResult(case.id, status, kinds, reason, stage=stage, seconds=seconds)

    def _take(
        self, index: int, case: Case, result: CaseResult, stored: bool, found: Investigated | None = None
    ) -> None:
        self.results[index] = result
        self._label[index] = case.seed.label
        self._unjudged += result.status is Status.ERROR and not case.number and case.seed.hash not in self._of_proposals
        cpu = sum(seconds for _, seconds in result.seconds)
        if not stored:
            self._add_seconds(result.seconds)
        if self.check:
            self._tell_checked(case.seed.label, result)
            return
        self.counts[result.status.value] += 1
        self.emit(
            CaseDone(
                index, result.case_id, case.seed.label, case.number, result.status, result.kinds, result.reason,
                result.recipe, result.triangle, result.stage, result.unit, result.wall, round(cpu, 3),
            )
        )  # fmt: skip
        if result.status is Status.FINDING and case.id not in self._concluded:
            if case.id not in self._seen:
                self._see(case, result, found)
            self.found.append(_Found(index, case, result))

    # -- what was seen, until something is confirmed of it -------------------------

    def _see(self, case: Case, result: CaseResult, found: Investigated | None) -> None:
        """A case that differs is a finding from now on, as it was found; what is made of it later takes its place."""
        if found is None:
            found = Investigated.of_result(result)
        finding = self._finding(worker.Investigate(0, case, result, 0.0), found)
        finding = replace(finding, id=digest(["seen", case.id], 12), confirmed=False)
        folder = self._place_of_seen(finding)
        try:
            self._write(folder, finding)
        except ValueError:  # the seed's source is no program of the form that scripts are made of
            finding = replace(finding, program="")
            self._write(folder, finding)
        with self._clock.activity("store"):
            self.store.add_finding(self._run_id, finding, str(folder))
        self._seen[case.id] = finding

    def _place_of_seen(self, finding: Finding) -> Path:
        return self.settings.state_dir / "seen" / finding.id

    def _settled(self, case_id: str) -> None:
        """Something stands for what was seen of the case."""
        seen = self._seen.pop(case_id, None)
        if seen is not None:
            with self._clock.activity("store"):
                self.store.remove_finding(self._run_id, seen.id)
            shutil.rmtree(self._place_of_seen(seen), ignore_errors=True)

    def _as_seen(self, finding: Finding) -> Finding | None:
        """The finding with the program of its case as it was found; None where it has that one already, or none is."""
        seen = self._seen.get(finding.case_id)
        if seen is None or seen.program in ("", finding.program):
            return None
        return replace(
            seen, id=seen.fingerprint, unit=finding.unit, bug_class=finding.bug_class, confirmed=True,
            blame=finding.blame, exhibit=finding.exhibit or seen.exhibit,
        )  # fmt: skip

    def _tell_checked(self, seed: str, result: CaseResult) -> None:
        """What differs is known where the baseline lists it, and new else."""
        verdict, print_, known = result.status, "", ""
        if verdict is Status.FINDING:
            print_ = checked_fingerprint(seed, result.kinds, result.stage, result.unit)
            if print_ in self._baseline:
                verdict, known = Status.KNOWN, "baseline"
                self.known += 1
            else:
                self._differing.append(print_)
        self.counts[verdict.value] += 1
        self.emit(Checked(seed, verdict, result.kinds, result.stage, result.unit, result.reason, print_, known))

    def _add_seconds(self, seconds: tuple[tuple[str, float], ...]) -> None:
        for activity, used in seconds:
            self.seconds[activity] += used

    def _conclude(self, job: worker.Investigate, ended: Ended) -> None:
        got = ended.value
        if isinstance(got, Investigated):
            self._add_seconds(got.seconds)
            self._spent += sum(used for _, used in got.seconds)
        else:
            self._spent += ended.cpu
            manner = self._next_manner(job, ended)
            if manner is not None:
                self.found.append(_Found(job.index, job.case, job.result, manner))
                return
            why = ended.detail or ended.trouble
            self.emit(Warned(f"case {job.index} ({job.case.seed.label}) could not be investigated: {why}"))
            got = None
        like = self._groups.get(got.group, "") if got is not None else ""
        if got is None or not (got.program or like):
            self._stays_seen(job.case.id, "nothing that stands alone was made of it")
            return
        finding = self._finding(job, got)
        if not got.program:
            finding = replace(finding, id=like, fingerprint=like)
        elif got.group:
            self._groups[got.group] = finding.fingerprint
        if got.rewrites:
            self._needed.add(frozenset(got.rewrites))
        self._settle(worker.Confirm(job.index, job.case, finding, ""))

    def _next_manner(self, job: worker.Investigate, ended: Ended) -> worker.Manner | None:
        """How a case whose investigation came to nothing is investigated again; None where it is not."""
        if job.manner is worker.Manner.AS_FOUND:
            return None
        # A GPU's context does not survive a fork.
        died = ended.trouble == "crash" and job.manner is worker.Manner.HERE and job.case.device == "cpu"
        return worker.Manner.APART if died else worker.Manner.AS_FOUND

    def _settle(self, job: worker.Confirm) -> None:
        """A duplicate is stored as one; anything new is written and goes to be confirmed."""
        finding = job.finding
        earlier = self.findings.get(finding.fingerprint)
        if earlier is not None and finding.program and not one_cause(earlier, finding):
            apart = digest([finding.fingerprint, finding.program], 12)
            finding, earlier = replace(finding, id=apart, fingerprint=apart), self.findings.get(apart)
        if earlier is not None:
            self.duplicates += 1
            finding = replace(finding, id=digest([finding.fingerprint, finding.case_id], 12))
            self.store.add_finding(self._run_id, finding, "", duplicate_of=earlier.id)
            self._settled(finding.case_id)
            self.emit(FindingMade(finding, "", "", earlier.id))
            return
        if finding.fingerprint in self._confirming:
            self._confirming[finding.fingerprint].append(finding)
            return
        if not finding.program:  # what it is like was not confirmed
            again = self._as_seen(finding)
            if again is None:
                self._stays_seen(finding.case_id, "what it is like was not confirmed")
                return
            finding = again
        # What is in findings/ shows its difference: until then, and where it does not, it lies elsewhere.
        folder = self.settings.state_dir / "unconfirmed" / finding.id
        self._write(folder, finding)
        self._confirming[finding.fingerprint] = []
        self._to_confirm.append(replace(job, finding=finding, folder=str(folder), times=self.confirmations))

    def _folder(self, finding: Finding) -> Path:
        return self.settings.state_dir / "findings" / finding.id

    def _write(self, folder: Path, finding: Finding) -> None:
        with self._clock.activity("store"):
            write_finding(folder, finding, versions(), self.settings.state_dir / "proofs")

    def _confirmed(self, job: worker.Confirm, ended: Ended) -> None:
        finding = job.finding
        shown, used = ended.value if ended.value is not None else (None, ())
        self._add_seconds(used)
        same = self._confirming.pop(finding.fingerprint, [])
        if shown is None or not shown.stands:
            if shown is not None and not finding.config.get("threads"):
                self._with_one_thread(job, same)
                return
            self._not_confirmed(job, f"{shown}: {shown.said}" if shown else ended.detail or ended.trouble)
            again = self._as_seen(finding)
            if again is None:
                self._stays_seen(finding.case_id, "its repro.py does not show the difference in a fresh process")
            else:
                self._settle(replace(job, finding=again))
            for other in same:  # their programs may
                self._settle(replace(job, finding=other))
            return
        finding = replace(finding, evidence=(*finding.evidence, str(shown)))
        match = self._known.match(finding, version_of("torch"))
        if match or finding.fingerprint in self._baseline:
            finding = replace(finding, known=match or "baseline")
            self.known += 1
        folder = self._folder(finding)
        self._write(folder, finding)
        shutil.rmtree(job.folder, ignore_errors=True)
        with self._clock.activity("store"):
            self.store.add_finding(self._run_id, finding, str(folder))
        self._settled(finding.case_id)
        self.findings[finding.fingerprint] = finding
        self.emit(FindingMade(finding, str(folder), finding.known, ""))
        for other in same:
            self._settle(replace(job, finding=other))

    def _with_one_thread(self, job: worker.Confirm, same: list[Finding]) -> None:
        """Confirm the finding on one thread, as it was found: loops that run in parallel are other code."""
        finding = replace(job.finding, repro=job.finding.repro.with_config(threads=1))
        self._write(Path(job.folder), finding)
        self._confirming[finding.fingerprint] = same
        self._to_confirm.append(replace(job, finding=finding))

    def _stays_seen(self, case_id: str, why: str) -> None:
        """Nothing more is made of the case: it is told as it was seen."""
        self.counts["unconfirmed"] += 1
        seen = self._seen.get(case_id)
        if seen is not None:
            seen = self._seen[case_id] = replace(seen, evidence=(*seen.evidence, why))
            self.store.add_finding(self._run_id, seen, str(self._place_of_seen(seen)))

    def _not_confirmed(self, job: worker.Confirm, said: str) -> None:
        self._groups = {g: f for g, f in self._groups.items() if f != job.finding.fingerprint}
        self.emit(Warned(f"{job.folder}/repro.py does not show the difference in a fresh process: {said}"))

    def _finding(self, job: worker.Investigate, got: Investigated) -> Finding:
        result = job.result
        threads = got.config.get("threads", job.case.threads)
        print_ = fingerprint(got.kinds, result.stage, got.unit, got.signature, got.skeleton, got.structure)
        return Finding(
            id=print_,
            case_id=result.case_id,
            seed=job.case.seed.label,
            recipe=got.recipe,
            kinds=got.kinds,
            bug_class=bug_class(got.kinds, result.stage, got.unit),
            stage=result.stage,
            unit=got.unit,
            triangle=result.triangle or "seed-miscompiled",
            fingerprint=print_,
            reason=got.evidence[0] if got.evidence else result.reason,
            program=got.program,
            origin=job.case.seed.origin,
            ladder=result.ladder,
            evidence=(*got.evidence, *([f"found on {threads} threads"] if threads > 1 else [])),
            rewrites=got.rewrites,
            proofs=tuple(p for p in result.proofs if p.rewrite in map(str, Recipe.parse(got.recipe).rewrites)),
            repro=Repro(got.config, got.check, random=True),
            draw=Draw(self.settings.seed, job.case.number, job.case.input_seed, result.recipe),
            reduced=Reduced(
                got.nodes, got.tests, got.operations, got.skeleton, got.signature, got.rung, got.finished
            ),
            blame=got.blame,
            exhibit=got.exhibit,
        )

    # -- after -----------------------------------------------------------------

    def _exit_code(self) -> int:
        if self.counts[Status.UNSOUND_REWRITE.value]:
            return UNSOUND
        if self._new or (self.known and self.settings.fail_on_known):
            return FINDINGS
        errors = self.counts[Status.ERROR.value]
        if self._unjudged or self.counts["refused"]:
            return INTERNAL
        if errors > 3 and errors > TOO_MANY_ERRORS * self._judged_so_far:
            return INTERNAL
        return NOTHING_RAN if self.counts["unreached"] or not self._judged_so_far else OK

    @property
    def _new(self) -> tuple[str, ...]:
        """Ids of findings that are not known, those only seen too; of ``check``, which makes none, fingerprints."""
        found = (*self.findings.values(), *self._seen.values())
        return (*self._differing, *(f.id for f in found if not f.known))

    def _account(self) -> None:
        for activity, used in self._clock.take():
            self.seconds["parent" if activity == "idle" else activity] += used
        self.store.add_seconds(self._run_id, dict(self.seconds))

    def _finish(self, code: int) -> int:
        for seen in self._seen.values():
            self.emit(FindingMade(seen, str(self._place_of_seen(seen)), seen.known, ""))
        self._account()
        edge = self.counts[Status.EDGE_CASE.value]
        finished = RunFinished(
            run_id=self._run_id,
            exit_code=code,
            counts=dict(self.counts),
            rungs={self._rung().value: self._judged_so_far},
            findings=self._new,
            known=self.known,
            duplicates=self.duplicates,
            edge_cases=edge,
            cases=self._judged_so_far,
            coverage=self._coverage(),
            seconds={k: round(v, 2) for k, v in sorted(self.seconds.items())},
            wall_s=round(self._elapsed, 1),
            report="" if self.check else str(self.settings.state_dir / PAGE),
        )
        self.store.finish_run(self._run_id, finished.to_json(), resumable=code == INTERRUPTED)
        self.emit(finished)
        return code

    def _coverage(self) -> dict[str, Any]:
        """Rules that were applied, distinct variants, how their rewrites are proved, and how many cases each unit of
        Inductor fired in.
        """
        recipes = [r.recipe for r in self.results.values() if r.recipe and r.status is not Status.UNSOUND_REWRITE]
        used = {part.split("@")[0].split("{")[0].strip() for text in recipes for part in text.split(";")}
        variants = len({r.graph_hash for r in self.results.values() if r.graph_hash})
        proofs = [p for r in self.results.values() for p in r.proofs]
        fired = Counter(unit for r in self.results.values() for unit in r.fired)
        units = {"units": dict(sorted(fired.items()))} if fired else {}
        return {"rules": len(used), "variants": variants, "proofs": summary_of_proofs(proofs), **units}


def summary_of_proofs(proofs: Sequence[RewriteProof]) -> dict[str, Any]:
    """Of each family of rules how many rewrites have each level; CPU milliseconds of a proof, made and looked up."""
    levels: dict[str, Counter[str]] = {}
    for p in proofs:
        levels.setdefault(p.rewrite.split("_", 1)[0], Counter())[p.proof.level.value] += 1

    def median_ms(cached: bool) -> float | None:
        times = [p.seconds for p in proofs if p.cached is cached]
        return round(1000 * median(times), 2) if times else None

    ordered = {f: {lv.value: levels[f][lv.value] for lv in Level if levels[f][lv.value]} for f in sorted(levels)}
    return {"levels": ordered, "median_ms": {"made": median_ms(False), "looked up": median_ms(True)}}


def _rewritable(result: CaseResult) -> bool:
    return result.status not in (Status.FINDING, Status.ERROR, Status.UNSUPPORTED)


def _baseline(path: str | None) -> frozenset[str]:
    """Fingerprints that do not count: one a line, the first word; ``#`` starts a comment."""
    if path is None:
        return frozenset()
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#"))


def version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    import platform

    return {
        "fxmorph": version_of("fxmorph"),
        "torch": version_of("torch"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
