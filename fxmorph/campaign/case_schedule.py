"""The schedule of whole programs: seeds and variants in a fixed order.

The order is a function of the seeds and the campaign seed alone: every seed as it is, then variant 1 of every
clean seed, variant 2, and so on.  A run that time limits is a prefix of it (but for cases in flight).  With
proposals every other case after the seeds is one of theirs, by what has fired in whole turns (``ideas.py``);
where a language model is asked, it hangs on the answers too.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from fxmorph.campaign import worker
from fxmorph.campaign.credit import Credit
from fxmorph.campaign.finding_queue import FindingQueue
from fxmorph.campaign.ideas import promising
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.campaign.packs import Packs
from fxmorph.campaign.schedule import case_of, result_of_loss, rung_of
from fxmorph.core.config import Settings
from fxmorph.core.pool import Ended
from fxmorph.events import CaseDone, Checked, Warned
from fxmorph.judge.plans import kernels_of, threads_of
from fxmorph.model import (
    Case,
    CaseResult,
    Level,
    Recipe,
    RewriteProof,
    Rung,
    Seed,
    Status,
    ValuePlan,
    VerdictCode,
)

#: A rule is left out of later rounds after this many findings with it, if they are this share of its variants.
WORN_FINDINGS, WORN_SHARE = 2, 0.5


class CaseSchedule:
    """``listed`` are all cases, where they were given; ``done`` results of an earlier part of the run, by case.

    With ``check`` each seed is judged as it is and told so, and nothing more is made of what differs.
    """

    def __init__(
        self, settings: Settings, seeds: Sequence[Seed], packs: Packs, ledger: Ledger, queue: FindingQueue, emit: Emit,
        listed: Sequence[Case] | None = None, done: Mapping[str, CaseResult] | None = None, check: bool = False,
    ) -> None:  # fmt: skip
        self._settings, self._packs, self._ledger, self._queue, self._emit = settings, packs, ledger, queue, emit
        self._seeds, self._listed, self._done, self._check = list(seeds), listed, done or {}, check
        self.rung: Rung = rung_of(settings)
        self.until = 1.0 if check else 0.85
        self.unjudged = 0
        #: By index, and the seed's label by the same.
        self.results: dict[int, CaseResult] = {}
        self._label: dict[int, str] = {}
        self._credit = Credit()
        #: So many results are in the credit: those of whole turns, so that it does not depend on the workers.
        self._credited = 0
        #: Cases that were given an index.
        self._issued = 0
        #: Rules that variants are rather made by.
        self._favoured: tuple[str, ...] = ()

    @property
    def planned(self) -> int | None:
        return len(self._seeds) if not self._settings.rewrites else None

    @property
    def judged(self) -> int:
        return len(self.results)

    # -- the order of cases ----------------------------------------------------

    def jobs(self) -> Iterator[worker.Judge | None]:
        for entry in self._cases():
            yield None if entry is None else worker.Judge(*entry)

    def _cases(self) -> Iterator[tuple[int, Case] | None]:
        if self._listed is not None:
            yield from enumerate(self._listed)
            return
        #: Seeds that are judged as they are, by the index of that case.
        begun: dict[int, Seed] = {}
        for seed in self._seeds:
            if seed.hash not in self._packs.seeds or not self._settings.rewrites:
                begun[self._issued] = seed
                yield self._next(self._case(seed, 0))
        if not self._settings.rewrites:
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
            self._favoured = (*self._credit.rules, *promising(self._packs.rules, self._credit.units))
            seeds = self._turn(turn, usable, earned if turn > 1 else set())
            ideas = self._packs.ideas.next(max(len(seeds), 1), self._credit.units)
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

    def _case(self, seed: Seed, number: int, avoid: tuple[str, ...] = ()) -> Case:
        return case_of(self._settings, seed, number, self.rung, avoid, self._favoured)

    def _next(self, case: Case) -> tuple[int, Case]:
        index, self._issued = self._issued, self._issued + 1
        settings = self._settings
        kernels = kernels_of(settings, index) if case.number else case.compile.kernels
        compiled = replace(case.compile, threads=threads_of(settings, index), kernels=kernels)
        return index, replace(case, compile=compiled)

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
        random.Random(f"order {self._settings.seed} {number}").shuffle(shuffled)
        return shuffled

    def _ask(self, turn: int) -> None:
        """Take what a language model proposes, where one is asked."""
        folder = self._packs.asked_for(turn, self._credit.units, self._ledger)
        if folder is not None:
            self._seeds += self._packs.take([folder], self._seeds)

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

    def limit(self, job: worker.Judge) -> float:
        return self._settings.case_timeout

    # -- results ---------------------------------------------------------------

    def recalled(self, job: worker.Judge) -> bool:
        stored = self._done.get(job.case.id)
        if stored is not None:
            if stored.status is Status.FINDING and not self._check:  # it may not have been investigated to the end
                self._queue.see(job.index, job.case, stored, None)
            self._take(job.index, job.case, stored)
        return stored is not None

    def hear(self, ended: Ended) -> None:
        job = ended.job
        judged = ended.value or worker.Judged(result_of_loss(job.case, ended))
        if judged.result.status is Status.FINDING and not self._check:
            # Before its result: a run that is killed between the two judges the case again, and has it already.
            self._queue.see(job.index, job.case, judged.result, judged.found)
        self._ledger.add_result(job.index, job.case, judged.result)
        self._ledger.add_seconds(judged.result.seconds)
        self._take(job.index, job.case, judged.result)

    def _take(self, index: int, case: Case, result: CaseResult) -> None:
        self.results[index] = result
        self._label[index] = case.seed.label
        self.unjudged += _is_no_test(result) and not case.number and case.seed.hash not in self._packs.seeds
        if self._check:
            self._tell_checked(case.seed.label, result)
            return
        self._ledger.counts[result.status.value] += 1
        cpu = sum(seconds for _, seconds in result.seconds)
        self._emit(
            CaseDone(
                index, result.case_id, case.seed.label, case.number, result.status, result.kinds, result.reason,
                result.recipe, result.triangle, result.stage, result.unit, result.wall, round(cpu, 3),
            )
        )  # fmt: skip

    def _tell_checked(self, seed: str, result: CaseResult) -> None:
        """What differs is known where the baseline lists it, and new else."""
        verdict, print_, known = result.status, "", ""
        if verdict is Status.FINDING:
            print_, known = self._queue.check(seed, result)
            verdict = Status.KNOWN if known else verdict
        self._ledger.counts[verdict.value] += 1
        self._emit(Checked(seed, verdict, result.kinds, result.stage, result.unit, result.reason, print_, known))

    # -- what remains ------------------------------------------------------------

    def end(self) -> None:
        """Say which seeds were not judged as they are: nothing is known of them.

        Where --max-cases ended the run that is what was asked for.
        """
        judged = {self._label[index] for index in self.results}
        enough = self._settings.max_cases is not None and self.judged >= self._settings.max_cases
        left = [s.label for s in self._seeds if s.label not in judged and s.hash not in self._packs.seeds]
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


def _is_no_test(result: CaseResult) -> bool:
    """Whether nothing was judged for a reason that is the seed's own: an error, or eager refuses its own inputs."""
    refused = any(v.code is VerdictCode.EAGER_RAISES and v.plan is ValuePlan.SEED for v in result.verdicts)
    return result.status is Status.ERROR or (result.status is Status.UNSUPPORTED and refused)


def _rewritable(result: CaseResult) -> bool:
    return result.status not in (Status.FINDING, Status.ERROR, Status.UNSUPPORTED)
