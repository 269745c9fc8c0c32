"""The schedule of whole programs: which cases there are, what becomes of their results, what is told of them.

Of a corpus the order is that of ``portfolio.py``; else every seed as it is, then variant 1 of every clean seed, variant
2, and so on (``variants.py``).  Both are functions of the seeds and the campaign seed alone, and a run that time limits
is a prefix of it (but for cases in flight).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from statistics import median
from typing import Any

from fxmorph.campaign.case_results import Answers
from fxmorph.campaign.finding_queue import FindingQueue
from fxmorph.campaign.jobs import Judge, Judged, KeepProgram, ListOperators, ListUnits
from fxmorph.campaign.kept_programs import Keeper
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.campaign.packs import Packs
from fxmorph.campaign.portfolio import Portfolio, is_portfolio
from fxmorph.campaign.schedule import can_interpret, case_of, placed, result_of_loss, rung_of
from fxmorph.campaign.sharding import Passed, VariantsApart, places
from fxmorph.campaign.unit_schedule import UnitSchedule
from fxmorph.campaign.variants import Place, Variants
from fxmorph.core.config import Settings, Source
from fxmorph.core.pool import Ended
from fxmorph.events import CaseDone, Checked, Warned
from fxmorph.inductor.rung import Chosen
from fxmorph.judge.plans import MADE_LOOK, MADE_PLANS
from fxmorph.model import Case, CaseResult, Level, RewriteProof, Rung, Seed, Status, ValuePlan, VerdictCode

#: CPU seconds for a list of the operators of torch's tests, and for a program that nobody wrote.
LISTING_SECONDS, MADE_SECONDS = 120.0, 40.0
#: No new case starts after this share of the budget where something new waits for an investigation, and where not.
UNTIL, UNTIL_NOTHING_NEW = 0.85, 0.93
#: On a GPU, where an investigation takes longer, so many seconds are left for the last ones, or this share of all.
LEFT_ON_GPU, MOST_ON_GPU = 90.0, 0.25
#: After this part of what a case may take it is judged on no other set of values.
ENOUGH = 0.5


class CaseSchedule:
    """``listed`` are all cases, where they were given; ``done`` results of an earlier part of the run, by case;
    ``kept`` programs of earlier runs that it starts from.

    With ``check`` each seed is judged as it is and told so, and nothing more is made of what differs.
    """

    def __init__(
        self, settings: Settings, seeds: Sequence[Seed], packs: Packs, ledger: Ledger, queue: FindingQueue, emit: Emit,
        listed: Sequence[Case] | None = None, done: Mapping[str, CaseResult] | None = None, check: bool = False,
        kept: Sequence[Seed] = (),
    ) -> None:  # fmt: skip
        self._settings, self._packs, self._ledger, self._queue, self._emit = settings, packs, ledger, queue, emit
        self._seeds, self._listed, self._done, self._check = list(seeds), listed, done or {}, check
        self.rung: Rung = rung_of(settings)
        self._unjudged = 0
        self.answers = Answers()
        #: How far the order was gone through, and how many cases of it were given out.
        self._places = self._given = 0
        #: The seed's label by the index of its case.
        self._label: dict[int, str] = {}
        #: How many cases of each rung were judged.
        self._judged: Counter[str] = Counter({self.rung.value: 0})
        self._portfolio: Portfolio | None = None
        #: Units of Inductor alone, where they are tried beside whole programs.
        self._units: UnitSchedule | None = None
        #: Decides what is kept of this run, where anything is.
        self._keeper: Keeper | None = None
        if is_portfolio(settings, check):
            interprets = settings.device == "cpu" and not settings.compiles_alone and can_interpret()
            if Source.PASSES in settings.sources:
                self._units = UnitSchedule(settings, self._own_seeds, ledger, queue, emit, prove=False)
            self._portfolio = Portfolio(
                settings, self._own_seeds, self.answers, self.rung, interprets, self._units, kept
            )
            if settings.shard is None:
                looked_at = self._own_seeds if Source.SEEDS in settings.sources else ()
                self._keeper = Keeper(settings.state_dir, kept, looked_at)
            self._judged.update({Rung.IR.value: 0} if interprets else {})

    @property
    def until(self) -> float:
        if self._check:
            return 1.0
        if self._settings.device != "cpu":
            return min(UNTIL, 1 - min(LEFT_ON_GPU / self._settings.max_time, MOST_ON_GPU))
        return UNTIL if self._queue.has_new else UNTIL_NOTHING_NEW

    @property
    def planned(self) -> int | None:
        return len(self._seeds) if not self._settings.rewrites else None

    @property
    def judged(self) -> int:
        return len(self.answers) + (self._units.judged if self._units is not None else 0)

    @property
    def unjudged(self) -> int:
        return self._unjudged + (self._units.unjudged if self._units is not None else 0)

    @property
    def rungs(self) -> dict[str, int]:
        return {**(self._units.rungs if self._units is not None else {}), **self._judged}

    @property
    def late_jobs(self) -> Iterator[Any]:
        counted = self._settings.max_cases is not None
        return iter(()) if self._portfolio is None or counted else self._portfolio.of_units

    # -- the order of cases ----------------------------------------------------

    def jobs(self) -> Iterator[Any]:
        limit, order = self._settings.max_cases, self._order()
        while limit is None or self._places < limit:
            yield from self._keeping()
            try:
                job = next(order)
            except StopIteration:
                break
            place = self._places
            self._places += isinstance(job, (Case, Passed))
            if isinstance(job, Case):
                self._given += 1
                yield Judge(place, job, ENOUGH * self._case_seconds(job))
            elif not isinstance(job, Passed):
                yield job
        while self._keeper is not None and len(self.answers) < self._given:  # the last ones may be kept too
            yield None
        yield from self._keeping(ended=True)

    def _keeping(self, ended: bool = False) -> Iterator[KeepProgram]:
        return self._keeper.jobs(ended) if self._keeper is not None else iter(())

    def _order(self) -> Iterator[Any]:
        settings, shard = self._settings, self._settings.shard
        if self._listed is not None:
            yield from places(shard, zip(self._listed))
        elif not settings.rewrites:
            yield from places(shard, zip(self._as_they_are(self._seeds)))
        elif self._portfolio is not None:
            # Programs that were kept have variants of their own, whose order no proposal enters.
            of_kept = Variants(
                settings, [], Packs(settings), self._ledger, self.answers, self.rung, self._portfolio.variant
            )
            yield from self._portfolio.cases(self._variants(self._portfolio.variant), of_kept)
        else:
            looks = self._as_they_are(self._own_seeds)
            yield from places(shard, zip(looks))
            variants = self._variants(lambda case, place: placed(settings, case, place))
            yield from takewhile(lambda _: not variants.dry, variants.after(looks))

    def _as_they_are(self, seeds: Sequence[Seed]) -> list[Case]:
        return [placed(self._settings, self._case(seed), place) for place, seed in enumerate(seeds)]

    @property
    def _own_seeds(self) -> list[Seed]:
        """Seeds that are not proposals: those come with the variants."""
        return [seed for seed in self._seeds if seed.hash not in self._packs.seeds]

    @property
    def _to_be_judged(self) -> Sequence[Seed]:
        """Seeds that this run, or shard, judges as they are where it has the time."""
        shard, ordered = self._settings.shard, self._portfolio.seeds if self._portfolio is not None else self._seeds
        return ordered if shard is None else [seed for place, seed in enumerate(ordered) if shard.takes(place)]

    def _case(self, seed: Seed) -> Case:
        return case_of(self._settings, seed, 0, self.rung)

    def _variants(self, place: Place) -> Variants | VariantsApart:
        def steered(place: Place) -> Variants:
            return Variants(self._settings, self._seeds, self._packs, self._ledger, self.answers, self.rung, place)

        shard = self._settings.shard
        return steered(place) if shard is None else VariantsApart(shard, steered, place)

    def limit(self, job: Any) -> float:
        if isinstance(job, (ListOperators, ListUnits)):
            return LISTING_SECONDS
        if isinstance(job, KeepProgram):
            return MADE_SECONDS
        if self._units is not None and _is_of_units(job):
            return self._units.limit(job)
        return self._case_seconds(job.case)

    def _case_seconds(self, case: Case) -> float:
        limit = self._settings.case_timeout
        return min(limit, MADE_SECONDS) if self._is_made(case) else limit

    def _is_made(self, case: Case) -> bool:
        """Whether nobody wrote the program."""
        return self._portfolio is not None and case.plans in (MADE_LOOK, MADE_PLANS)

    # -- results ---------------------------------------------------------------

    def recalled(self, job: Any) -> bool:
        if not isinstance(job, Judge) or _is_of_units(job):
            return False
        stored = self._done.get(job.case.id)
        if stored is not None:
            if stored.status is Status.FINDING and not self._check:
                self._queue.recall(job.index, job.case, stored)
            self._take(job.index, job.case, stored)
        return stored is not None

    def hear(self, ended: Ended) -> None:
        job = ended.job
        if isinstance(job, ListOperators):
            return self._told_operators(ended)
        if isinstance(job, ListUnits):
            return self._told_units(ended)
        if isinstance(job, KeepProgram):
            return self._told_program(ended)
        if self._units is not None and _is_of_units(job):
            return self._units.hear(ended)
        judged = ended.value or Judged(result_of_loss(job.case, ended))
        if judged.result.status is Status.FINDING and not self._check:
            # Before its result: a run that is killed between the two judges the case again, and has it already.
            self._queue.see(job.index, job.case, judged.result, judged.found)
        self._ledger.add_result(job.index, job.case, judged.result)
        self._ledger.add_seconds(judged.result.seconds)
        self._take(job.index, job.case, judged.result)

    def _told_operators(self, ended: Ended) -> None:
        assert self._portfolio is not None
        listed, seconds = ended.value if ended.value is not None else ((), ())
        self._ledger.add_seconds(seconds)
        self._portfolio.told(listed)
        if not listed:
            why = ended.detail or ended.trouble or "it has none"
            self._emit(Warned(f"no operators of torch's own tests are tried: {why}"))

    def _told_units(self, ended: Ended) -> None:
        assert self._units is not None
        chosen, seconds = ended.value if ended.value is not None else (Chosen(), ())
        self._ledger.add_seconds(seconds)
        self._units.told(chosen)
        if not chosen.units:
            self._emit(Warned(f"no passes of Inductor are tried alone: {ended.detail or ended.trouble}"))

    def _told_program(self, ended: Ended) -> None:
        assert self._keeper is not None
        text, seconds = ended.value if ended.value is not None else ("", ())
        self._ledger.add_seconds(seconds)
        self._keeper.keep(ended.job, text)

    def _take(self, index: int, case: Case, result: CaseResult) -> None:
        self.answers.take(index, case, result)
        if self._keeper is not None:
            self._keeper.hear(index, case, result)
        self._label[index] = case.seed.label
        self._judged[case.rung.value] += 1
        theirs = not case.number and case.seed.hash not in self._packs.seeds and not self._is_made(case)
        self._unjudged += theirs and _is_no_test(result)
        if self._check:
            self._tell_checked(case.seed.label, result)
            return
        self._ledger.counts[result.status.value] += 1
        self._emit(CaseDone.of(index, case, result))

    def _tell_checked(self, seed: str, result: CaseResult) -> None:
        """What differs is known where the baseline lists it, and new else."""
        verdict, print_, known = result.status, "", ""
        if verdict is Status.FINDING:
            print_, known = self._queue.check(seed, result)
            verdict = Status.KNOWN if known else verdict
        self._ledger.counts[verdict.value] += 1
        self._emit(
            Checked(
                seed, verdict, result.kinds, result.stage, result.unit, result.reason, print_, known,
                result.shown_under or "",
            )
        )  # fmt: skip

    # -- what remains ------------------------------------------------------------

    def end(self) -> None:
        """Say which seeds were not judged as they are: nothing is known of them.

        Where --max-cases ended the run that is what was asked for.
        """
        judged = {self._label[index] for index in self.answers.by_index}
        limit = self._settings.max_cases
        enough = limit is not None and self._places >= limit and self._given == len(self.answers)
        if self._units is not None:
            self._units.end()
        left = [s.label for s in self._to_be_judged if s.label not in judged and s.hash not in self._packs.seeds]
        if not left or enough or self._listed is not None:
            return
        self._ledger.counts["unreached"] = len(left)
        if self._check:
            for label in left:
                self._emit(Checked(label, Status.SKIPPED, reason="not reached within --max-time"))
            return
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        self._emit(Warned(f"not judged within --max-time: {', '.join(left[:3])}{more}"))

    def coverage(self) -> dict[str, Any]:
        """Rules that were applied, distinct variants, how their rewrites are proved, and how many cases each unit of
        Inductor fired in.
        """
        recipes = [r.recipe for r in self.answers if r.recipe and r.status is not Status.UNSOUND_REWRITE]
        used = {part.split("@")[0].split("{")[0].strip() for text in recipes for part in text.split(";")}
        variants = len({r.graph_hash for r in self.answers if r.graph_hash})
        proofs = [p for r in self.answers for p in r.proofs]
        fired = Counter(unit for r in self.answers for unit in r.fired)
        units = {"units": dict(sorted(fired.items()))} if fired else {}
        alone = self._units.coverage() if self._units is not None and self._units.judged else {}
        return {"rules": len(used), "variants": variants, "proofs": summary_of_proofs(proofs), **units, **alone}


def _is_of_units(job: Any) -> bool:
    """Whether it is one of units alone: of their pairs, or a whole compile of what they were given."""
    return not isinstance(job, Judge) or job.case.rung is Rung.PASS


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


def _is_no_test(result: CaseResult) -> bool:
    """Whether nothing was judged for a reason that is the seed's own: an error, or eager refuses its own inputs."""
    refused = any(v.code is VerdictCode.EAGER_RAISES and v.plan is ValuePlan.SEED for v in result.verdicts)
    return result.status is Status.ERROR or (result.status is Status.UNSUPPORTED and refused)
