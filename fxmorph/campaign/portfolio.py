"""A campaign's cases from all sources at all rungs, side by side, what is cheap before what is dear.

Every seed is looked at with its kernels interpreted, in a second or two each, beside units of Inductor alone and
operators of torch's own tests.  Variants, generated programs, and seeds with their kernels compiled follow.  What
interpreted kernels have shown to be wrong is not compiled again as it is.  Seeds of many operations are compiled from
the beginning: what is wrong with generated code nothing else shows, and a C++ compiler starts once for all of them.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fxmorph.campaign.case_results import Answers
from fxmorph.campaign.configurations import Configurations
from fxmorph.campaign.generated_seeds import generated_seed
from fxmorph.campaign.jobs import ListOperators, ListUnits
from fxmorph.campaign.operator_order import ordered_programs, packed, reaching_operators
from fxmorph.campaign.schedule import case_of
from fxmorph.campaign.sharding import Passed, VariantsApart, places
from fxmorph.campaign.time_shares import Lane, mixed
from fxmorph.campaign.unit_schedule import Cost, UnitSchedule
from fxmorph.campaign.variants import Variants
from fxmorph.core.config import Settings, Source
from fxmorph.core.operator_seeds import ListedOperator, OperatorProgram
from fxmorph.core.seen_differences import differs_as_it_is
from fxmorph.judge.plans import DENSE_PLANS, LOOK, MADE_LOOK, MADE_PLANS, THREADS, threads_of
from fxmorph.model import Case, Kernels, Rung, Seed, Status, ValuePlan

#: One of so many variants and generated programs is compiled, the others are interpreted.
COMPILED_EVERY = 4
#: A seed with so many operations in its text is compiled at once.
DENSE = 38


def is_portfolio(settings: Settings, check: bool = False) -> bool:
    """Whether a run has other sources than seeds, so that its order is this one."""
    apart = check or settings.cases is not None or settings.passes
    others = set(settings.sources) - {Source.SEEDS}
    return bool(settings.rewrites and others and settings.backend == "inductor" and not apart)


class Portfolio:
    """``interprets``: kernels can be interpreted here, and may be; where the settings say so all of them are.  ``rung``
    is the one of other programs; ``units`` are what is tried alone, None where none is; ``kept`` are programs that
    earlier runs kept.
    """

    def __init__(
        self, settings: Settings, seeds: Sequence[Seed], answers: Answers, rung: Rung, interprets: bool,
        units: UnitSchedule | None = None, kept: Sequence[Seed] = (),
    ) -> None:  # fmt: skip
        self._settings, self._answers, self._rung, self._interprets = settings, answers, rung, interprets
        self._units, self._kept = units, kept
        #: In their order.
        self.seeds = list(seeds)
        random.Random(f"seeds {settings.seed}").shuffle(self.seeds)
        self._compiles = not settings.interprets
        beside = interprets and self._compiles
        self._dense = {seed for seed in self.seeds if beside and _operations(seed) >= DENSE}
        # Those that are compiled at once are looked at last, and so are those that nothing new is expected of.
        self.seeds.sort(key=lambda seed: (differs_as_it_is(seed), seed in self._dense))
        self._configurations = Configurations(settings)
        #: Units alone.
        self.of_units: Iterator[Any] = units.jobs() if units is not None else iter(())
        #: Operators of torch's tests, once a worker has listed them.
        self._listed: Sequence[ListedOperator] | None = None
        #: Ids of the interpreted cases of seeds and operators as they are that were given out.
        self._looked: set[str] = set()

    def told(self, listed: Sequence[ListedOperator]) -> None:
        """A worker answered :class:`ListOperators`."""
        self._listed = listed

    def cases(self, variants: Variants | VariantsApart, of_kept: Variants | VariantsApart) -> Iterator[Any]:
        """In order, with jobs that list operators and jobs of units alone between them; None where results must come
        in first.  ``of_kept`` gives variants of programs that were kept.

        A lane's cost is in CPU seconds a case, as ``bench/rung_costs.py`` measures.
        """
        sources = self._settings.sources
        lanes: list[Lane[Any]] = []
        looking: Lane[Any] | None = None
        starting: Lane[Any] | None = None
        if Source.SEEDS in sources:
            looks = [self._as_it_is(seed, place) for place, seed in enumerate(self.seeds)]
            self._looked |= {look.id for look in looks}
            # The most of whole programs: seeds as they are show most of the faults that lie anywhere in the compiler.
            looking = Lane[Any](self._own(zip(looks)), 0.7, 1.2)
            lanes += [looking, Lane(variants.after(looks), 1.5, 0.15, after=looking, dry=lambda: variants.dry)]
        if Source.SEEDS in sources and self._interprets:
            compiled = [self._compiled(seed, place) for place, seed in enumerate(self.seeds)]
            # Those of the most operations first: more is compiled in the same seconds.
            seeds = sorted((seed for seed in self.seeds if seed in self._dense), key=_operations, reverse=True)
            dense = [(self._densely(seed),) for seed in seeds]
            others = [pair for pair in zip(looks, compiled, strict=True) if pair[0].seed not in self._dense]
            lanes.append(Lane(self._own(dense), 6.0, 1.4))
            lanes.append(Lane(self._compiled_seeds(others), 4.0, 0.1, after=looking))
        if Source.OPERATORS in sources:
            yield ListOperators()
            lanes += self._lanes_of_operators()
        if self._units is not None:
            yield ListUnits(("*",))
            lanes.append(Lane(self.of_units, self._cost_of_units, 2.4))
        if self._kept:
            kept = [self._made(seed, place) for place, seed in enumerate(self._kept)]
            starting = Lane[Any](self._own(zip(kept)), 1.5, 1.0)
            lanes += [starting, Lane(of_kept.after(kept), 1.5, 0.1, after=starting)]
        if Source.GENERATED in sources:
            lanes.append(Lane(self._generated(), 1.5, 0.25, after=starting))
            if self._compiles:
                lanes.append(Lane(self._long(), 13.0, 0.5))
        yield from mixed(lanes)

    def _own(self, turns: Iterable[Iterable[Case | None]]) -> Iterator[Case | Passed | None]:
        return places(self._settings.shard, turns)

    def _cost_of_units(self, job: Any) -> float:
        """Units have the same part of a shard's time: its jobs stand for those of the others too."""
        shard = self._settings.shard
        return Cost().of(job) * (shard.of if shard else 1)

    def variant(self, case: Case, place: int) -> Case:
        """How a variant is run that has so many cases before it; proposed seeds as they are compiled by default."""
        return self._varied(case, place) if case.number else self._threaded(case, place)

    def _varied(self, case: Case, place: int) -> Case:
        """Of four one is compiled, one interpreted as for a GPU; every other one, of each sort, is as programs are
        by default.
        """
        turn = place // COMPILED_EVERY
        if self._interprets and (place % COMPILED_EVERY or not self._compiles):
            case = interpreted(case, Kernels.GPU if place % COMPILED_EVERY == 1 else Kernels.CPP)
        else:
            case = self._threaded(case, turn if self._interprets else place)
        return self._configurations.under(case, place // 2) if (place + turn) % 2 else case

    # -- seeds as they are -----------------------------------------------------------

    def _as_it_is(self, seed: Seed, place: int) -> Case:
        """The first look at a seed: interpreted, where that can be done."""
        if not self._interprets:
            return self._compiled(seed, place)
        plans = LOOK if self._compiles else (*LOOK, ValuePlan.GPU)
        return replace(interpreted(case_of(self._settings, seed, 0, self._rung), Kernels.CPP), plans=plans)

    def _compiled(self, seed: Seed, place: int) -> Case:
        return self._threaded(case_of(self._settings, seed, 0, self._rung), place)

    def _densely(self, seed: Seed) -> Case:
        """One of many operations: loops that are long enough run in parallel, as users' do; short ones are the same."""
        case = case_of(self._settings, seed, 0, self._rung)
        threads = self._settings.threads or THREADS
        return replace(case, plans=DENSE_PLANS, compile=replace(case.compile, threads=threads))

    def _threaded(self, case: Case, place: int) -> Case:
        return replace(case, compile=replace(case.compile, threads=threads_of(self._settings, place)))

    def _compiled_seeds(self, pairs: Iterable[tuple[Case, Case]]) -> Iterator[Case | Passed | None]:
        return self._own(self._unless_settled(look, case) for look, case in pairs)

    def _unless_settled(self, look: Case, case: Case) -> Iterator[Case | None]:
        """The compiled case, unless the interpreted one came before it and showed that it needs no more."""
        yield from self._answers.awaited([look] if look.id in self._looked else [])
        result = self._answers.of(look)
        if result is None or result.status not in _SETTLED:
            yield case

    # -- operators -------------------------------------------------------------------

    def _lanes_of_operators(self) -> list[Lane[Any]]:
        """Until each lowering that an operator has was reached, they have nearly the part of the seeds, later less.

        Compiled, a pack of them has more kernels in it than a seed, for half the time.
        """
        if not self._interprets:
            return [Lane(self._compiled_operators(), _cost_of_compiled, 0.4)]
        looks = self._interpreted_operators()
        first: Lane[Any] = Lane(self._lowerings_once(looks), 0.43, 1.0)
        lanes = [first, Lane(looks, 0.43, 0.25, after=first)]
        return [*lanes, Lane(self._compiled_operators(), _cost_of_compiled, 0.5)] if self._compiles else lanes

    def _lowerings_once(self, looks: Iterator[Case | Passed | None]) -> Iterator[Case | Passed | None]:
        """The first group of the first round, which reaches every lowering."""
        while self._listed is None:
            yield next(looks, None)
        left = len(reaching_operators(self._listed))
        while left:
            look = next(looks, None)
            left -= look is not None
            yield look

    def _programs(self) -> Iterator[tuple[int, OperatorProgram]]:
        """By their place, once a worker has listed operators."""
        assert self._listed is not None
        return enumerate(ordered_programs(self._listed, self._settings.seed))

    def _operator(self, program: OperatorProgram) -> Case:
        """The program, compiled."""
        return replace(case_of(self._settings, program.seed(), 0, self._rung), plans=MADE_PLANS)

    def _listing(self) -> Iterator[None]:
        """None again and again until a worker has listed the operators."""
        while self._listed is None:
            yield None

    def _interpreted_operators(self) -> Iterator[Case | Passed | None]:
        yield from self._listing()
        yield from self._own(zip(self._looks_at_operators()))

    def _looks_at_operators(self) -> Iterator[Case]:
        for place, program in self._programs():
            look = self._look_at_operator(program, place)
            self._looked.add(look.id)
            yield look

    def _look_at_operator(self, program: OperatorProgram, place: int) -> Case:
        return replace(_flavoured(self._operator(program), place), plans=MADE_LOOK)

    def _compiled_operators(self) -> Iterator[Case | Passed | None]:
        """The same programs; of packs of them none was looked at."""
        yield from self._listing()
        yield from self._own(
            self._unless_settled(self._look_at_operator(program, place), self._threaded(self._operator(program), place))
            for place, program in packed(self._programs())
        )

    # -- generated programs ----------------------------------------------------------

    def _generated(self) -> Iterator[Case | Passed | None]:
        return self._own(map(self._generated_program, itertools.count()))

    def _long(self) -> Iterator[Case | Passed | None]:
        return self._own(zip(map(self._long_program, itertools.count())))

    def _long_program(self, number: int) -> Case:
        """Compiled, and once: its many loops cost one start of a compiler."""
        seed = generated_seed(self._settings.state_dir / "generated", self._settings.seed, number, long=True)
        case = replace(case_of(self._settings, seed, 0, self._rung), plans=MADE_LOOK)
        return self._threaded(case, number)

    def _generated_program(self, number: int) -> Iterator[Case]:
        seed = generated_seed(self._settings.state_dir / "generated", self._settings.seed, number)
        yield self._made(seed, number)

    def _made(self, seed: Seed, place: int) -> Case:
        """A program that nobody wrote, as it is."""
        return self._varied(replace(case_of(self._settings, seed, 0, self._rung), plans=MADE_PLANS), place)


#: Nothing is learned from compiling what came to this where kernels were interpreted.
_SETTLED = (Status.FINDING, Status.ERROR, Status.UNSUPPORTED, Status.SKIPPED)


def _flavoured(case: Case, place: int) -> Case:
    """One of four is fused as for a GPU."""
    return interpreted(case, Kernels.GPU if place % 4 == 3 else Kernels.CPP)


def _operations(seed: Seed) -> int:
    """In the text of a seed file, about; 0 of seeds of other forms."""
    if seed.form != "module":
        return 0
    counted = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)
    try:
        return sum(isinstance(node, counted) for node in ast.walk(ast.parse(Path(seed.path).read_text())))
    except (OSError, ValueError, SyntaxError):  # what cannot be read says so when it is loaded
        return 0


def _cost_of_compiled(case: Any) -> float:
    """Of programs of operators; of :class:`Passed` places too."""
    programs = len(OperatorProgram.of(case.seed).operators) if isinstance(case, Case) else 1
    return 0.4 + 1.05 * programs


def interpreted(case: Case, kernels: Kernels) -> Case:
    return replace(case, rung=Rung.IR, compile=replace(case.compile, kernels=kernels, threads=1))
