"""Variants of seeds, in turns: each usable seed once, those that made units of Inductor fire first twice.

With proposals every other case is one of theirs, by what has fired in whole turns (``ideas.py``); where a language
model is asked, the order hangs on its answers too.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fxmorph.campaign.case_results import Answers
from fxmorph.campaign.credit import Credit
from fxmorph.campaign.ideas import promising
from fxmorph.campaign.ledger import Ledger
from fxmorph.campaign.packs import Packs
from fxmorph.campaign.schedule import case_of
from fxmorph.core.config import Settings
from fxmorph.model import Case, CaseResult, Recipe, Rung, Seed, Status

#: A rule is left out of later turns after this many findings with it, if they are this share of its variants.
WORN_FINDINGS, WORN_SHARE = 2, 0.5
#: How a case is to be run, of those that one order has so far: ``place`` is their number.
Place = Callable[[Case, int], Case]


class Variants:
    """Of ``seeds``, the list of all that the run has: what a model proposes is added to it.

    ``place`` says how a case runs by how many there were before it.
    """

    #: They end where there are no more, and give no empty places before.
    dry = False

    def __init__(
        self, settings: Settings, seeds: list[Seed], packs: Packs, ledger: Ledger, answers: Answers, rung: Rung,
        place: Place,
    ) -> None:  # fmt: skip
        self._settings, self._seeds, self._packs, self._ledger = settings, seeds, packs, ledger
        self._answers, self._rung, self._place = answers, rung, place
        self._credit = Credit()
        self._given: list[Case] = []
        #: Of the first of them: those of whole turns, so that what they decide does not depend on the workers.
        self._results: list[CaseResult] = []
        #: Rules that variants are rather made by.
        self._favoured: tuple[str, ...] = ()

    def after(self, looks: Sequence[Case]) -> Iterator[Case | None]:
        """Variants of the seeds that ``looks`` judge as they are; None where results must come in first."""
        self._given = list(looks)
        begun, usable = list(looks), list[Seed]()
        numbers: Counter[str] = Counter()
        for turn in itertools.count(1):
            yield from self._answers.awaited(self._given[len(self._results) :])
            # A seed that is miscompiled as it is would only show the same thing again.
            usable += [case.seed for case in begun if _rewritable(self._answer(case))]
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
                    begun.append(self._next(self._case(what, 0)))
                    yield begun[-1]
                elif what is not None:
                    for named in what.among(usable):
                        # What was proposed was tried on the seed's own inputs.
                        yield self._next(replace(self._case(named, 1), chain=what.steps, reshaped=""))

    def _case(self, seed: Seed, number: int, avoid: tuple[str, ...] = ()) -> Case:
        return case_of(self._settings, seed, number, self._rung, avoid, self._favoured)

    def _next(self, case: Case) -> Case:
        case = self._place(case, len(self._given))
        self._given.append(case)
        return case

    def _answer(self, case: Case) -> CaseResult:
        result = self._answers.of(case)
        assert result is not None
        return result

    def _earned(self) -> set[str]:
        """The seeds whose programs made units fire first since it was last asked."""
        earned = set()
        for case in self._given[len(self._results) :]:
            self._results.append(self._answer(case))
            if self._credit.add(case.seed.label, self._results[-1].recipe, self._results[-1].fired):
                earned.add(case.seed.label)
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

        Taken from whole turns only, so that it does not depend on the number of workers.
        """
        used: Counter[str] = Counter()
        differ: Counter[str] = Counter()
        unsound: set[str] = set()
        for result in self._results:
            for name in {r.rule for r in Recipe.parse(result.recipe).rewrites} if result.recipe else ():
                used[name] += 1
                differ[name] += result.status is Status.FINDING
                if result.status is Status.UNSOUND_REWRITE:
                    unsound.add(name)
        worn = {n for n, k in differ.items() if k >= WORN_FINDINGS and k >= WORN_SHARE * used[n]}
        return tuple(sorted(worn | unsound))


def _rewritable(result: CaseResult) -> bool:
    return result.status not in (Status.FINDING, Status.ERROR, Status.UNSUPPORTED)
