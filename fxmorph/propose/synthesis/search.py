"""The synthesiser: enumerate, pick pairs that look equal and follow from nothing kept, prove them, keep the rules.

Everything is in one order that the seed decides; a smaller budget ends earlier in it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from fxmorph.model import Level
from fxmorph.propose.language.building import build_rule
from fxmorph.propose.language.sameness import Known
from fxmorph.propose.proposal import RuleProposal
from fxmorph.propose.synthesis.consequence import BITS, REALS, Derivations, Equation, schema, trivial
from fxmorph.propose.synthesis.enumeration import Counts, Enumeration, Pair, workloads
from fxmorph.propose.synthesis.fingerprints import FieldSample, agree
from fxmorph.propose.synthesis.form_operators import LAYOUT
from fxmorph.propose.synthesis.forms import arguments, operators
from fxmorph.propose.synthesis.proposing import canonical, generalised, proposed
from fxmorph.propose.synthesis.settling import BUDGET, settle
from fxmorph.prove.prover import Prover
from fxmorph.rules import load_rules

#: Of the budget, what enumeration may take.
ENUMERATION_SHARE = 0.08
#: Rules that differ in which elementwise operators they are about only: so many are kept.
ALIKE = 3


@dataclass(frozen=True)
class Kept:
    """A rule that was proved.

    ``levels``: by dtype.  ``tried``: sets of arguments it was run on beyond the proof.  ``same_as``: the shipped
    rule that says the same, in this direction or the other.
    """

    proposal: RuleProposal
    level: Level
    levels: tuple[tuple[str, Level], ...]
    trivial: bool
    tried: int
    same_as: str = ""


@dataclass
class Tally:
    """What a search did so far; ``seconds`` of CPU time."""

    counts: Counts = field(default_factory=Counts)
    candidates: int = 0
    subsumed: int = 0
    alike: int = 0
    refuted: int = 0
    unproved: int = 0
    proved: int = 0
    left: int = 0
    kept: list[Kept] = field(default_factory=list)
    seconds: float = 0.0
    doing: str = ""

    @property
    def levels(self) -> Counter[str]:
        return Counter(k.level.value for k in self.kept)

    @property
    def nontrivial(self) -> int:
        return sum(not k.trivial for k in self.kept)

    @property
    def shipped(self) -> int:
        """How many of those that are not trivial are among the shipped rules."""
        return sum(not k.trivial and bool(k.same_as) for k in self.kept)


class Search:
    """One run of the synthesiser; ``budget`` in CPU seconds of this process."""

    def __init__(self, names: tuple[str, ...], budget: float, seed: int) -> None:
        self.names, self.budget, self.seed, self.tally = names, budget, seed, Tally()
        self._started = time.process_time()
        self._derivations = Derivations()
        self._equations: list[Equation] = []
        self._alike: Counter[str] = Counter()
        self._named: Counter[str] = Counter()
        self._prover = Prover(budget=BUDGET)
        self._known = Known(load_rules())

    def run(self, tell: Callable[[Tally], None]) -> Tally:
        """Search until the budget is used or nothing is left; ``tell`` is called for each rule.

        An interrupt ends it too, once what was found is told.
        """
        try:
            self._search(tell)
        finally:
            self._minimise()
            self._tell(tell, "done")
        return self.tally

    def _search(self, tell: Callable[[Tally], None]) -> None:
        waiting = self._candidates(tell)
        self.tally.candidates = len(waiting)
        doubted = []
        for equation in self._while_there_is_time(waiting):
            if self._dispensable(equation):
                continue
            if equation.strength == REALS and self._field(equation) is False:
                doubted.append(equation)
                continue
            self._decide(equation)
            self._tell(tell, "proving")
        for equation in self._while_there_is_time(doubted):
            if not self._dispensable(equation):
                self._decide(equation)
                self._tell(tell, "proving what the field doubts")

    def _while_there_is_time(self, equations: Sequence[Equation]) -> Iterator[Equation]:
        for n, equation in enumerate(equations):
            if self._over():
                self.tally.left += len(equations) - n
                return
            yield equation

    def _over(self, share: float = 1.0) -> bool:
        self.tally.seconds = time.process_time() - self._started
        return self.tally.seconds > share * self.budget

    def _tell(self, tell: Callable[[Tally], None], doing: str) -> None:
        self._over()
        self.tally.doing = doing
        tell(self.tally)

    # -- candidates ------------------------------------------------------------

    def _candidates(self, tell: Callable[[Tally], None]) -> list[Equation]:
        """Pairs that look equal, none twice up to renaming, smallest first."""
        found: dict[tuple[str, str, frozenset[str]], Equation] = {}
        todo = workloads(self.names)
        for n, workload in enumerate(todo):
            share = ENUMERATION_SHARE * (n + 1) / len(todo)
            enumeration = Enumeration(workload, self.seed, self.tally.counts)
            for pair in enumeration.pairs(partial(self._over, share)):
                if _worthwhile(pair):
                    strength = BITS if pair.bits else REALS
                    one = canonical(Equation(pair.small, pair.large, strength, frozenset(pair.assumes)))
                    found.setdefault((one.left.text, one.right.text, one.assumes), one)
            self._tell(tell, f"enumerated {workload.name}")
        return sorted(found.values(), key=_order)

    # -- decisions -------------------------------------------------------------

    def _dispensable(self, equation: Equation) -> bool:
        """Whether it follows from what is kept, or is one more of a kind."""
        if self._derivations.follows(equation):
            self.tally.subsumed += 1
            return True
        if self._alike[_schema(equation)] >= ALIKE:
            self.tally.alike += 1
            return True
        if self._derivations.follows(equation, twice=True):  # takes longer, and saves a proof
            self.tally.subsumed += 1
            return True
        return False

    def _field(self, equation: Equation) -> bool | None:
        leaves = list(arguments(equation.left, equation.right).values())
        sample = FieldSample(leaves, self.seed)
        return agree(sample.elements(equation.left), sample.elements(equation.right))

    def _decide(self, equation: Equation) -> None:
        general = generalised(equation)
        wanted = proposed(general)
        plain = trivial(general.left, general.right)
        settled = settle(wanted, self._prover, self.seed, *([()] if plain else []))
        if settled.proposal is None:
            self.tally.refuted += settled.refuted
            self.tally.unproved += not settled.refuted
            return
        shown = BITS if settled.level.bitwise or settled.level is Level.UNDER_PRECONDITION else REALS
        rule = Equation(general.left, general.right, shown, frozenset(settled.proposal.assumes))
        if self._derivations.follows(rule):  # what it assumes is known now
            self.tally.subsumed += 1
            return
        self.tally.proved += 1
        self._derivations.add(rule)
        self._equations.append(rule)
        self._alike[_schema(equation)] += 1
        self._named[wanted.name] += 1
        number = self._named[wanted.name]
        named = settled.proposal.model_copy(update={"name": f"{wanted.name}_{number}" if number > 1 else wanted.name})
        self.tally.kept.append(Kept(named, settled.level, settled.levels, plain, settled.tried, self._same_as(named)))

    def _minimise(self) -> None:
        """Drop what follows from the other kept rules, the largest first."""
        left = list(zip(self._equations, self.tally.kept, strict=True))
        for one in reversed(list(left)):
            others = Derivations()
            for equation, _ in left:
                if equation is not one[0]:
                    others.add(equation)
            if others.follows(one[0]):
                left.remove(one)
                self.tally.subsumed += 1
        self.tally.kept = [kept for _, kept in left]

    def _same_as(self, proposal: RuleProposal) -> str:
        turned = proposal.model_copy(update={"before": proposal.after, "after": proposal.before, "site": "op"})
        if proposal.after in proposal.args:
            turned = turned.model_copy(update={"site": "value"})
        for one in (proposal, turned):
            try:
                same = self._known.same_as(build_rule(one))
            except Exception:  # what is no rule in this direction, or is not traced, is the same as none
                continue
            if same:
                return same
        return ""


def _worthwhile(pair: Pair) -> bool:
    """Whether one side's arguments are all of the other's, and layouts of masks are not all there is.

    What moves data moves masks as it moves numbers: such a rule is found for numbers, and tried for masks.
    """
    names = arguments(pair.small).keys(), arguments(pair.large).keys()
    masks = all(a.kind == "b" for a in arguments(pair.large).values())
    return (names[0] <= names[1] or names[1] <= names[0]) and not (masks and operators(pair.large) <= LAYOUT)


def _schema(equation: Equation) -> str:
    return schema(equation.left, equation.right)


def _order(equation: Equation) -> tuple[object, ...]:
    left, right = equation.left, equation.right
    general = -len(arguments(left, right))  # an instance of another comes after it
    return (left.size + right.size, len(equation.assumes), general, -equation.strength, left.text, right.text)


def synthesise(names: Sequence[str], budget: float, seed: int, tell: Callable[[Tally], None]) -> Tally:
    """Search with these operators on one core; ``budget`` in CPU seconds."""
    torch.set_num_threads(1)
    return Search(tuple(names), budget, seed).run(tell)
