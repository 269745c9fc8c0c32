"""The search for graphs that a pass changes: what it names in small programs, and changes of those that it reads on.

A program that runs lines of the pass that no other one ran is worth changing; one that the pass changes is worth
judging, and its near misses are.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from fxmorph.core.said import said
from fxmorph.inductor.apply import Applied
from fxmorph.inductor.firing.argument_values import Words
from fxmorph.inductor.firing.budget import Budget
from fxmorph.inductor.firing.chains import Place, chains
from fxmorph.inductor.firing.commonplace import commonplace
from fxmorph.inductor.firing.frontier import Frontier
from fxmorph.inductor.firing.growing import (
    appended,
    begun,
    crossed,
    merged_inputs,
    prepended,
    prepended_to_each,
    respelled,
    siblings,
)
from fxmorph.inductor.firing.numpy_names import programs_by_numpy_names
from fxmorph.inductor.firing.operator_calls import name_of, overloads_of
from fxmorph.inductor.firing.pattern_programs import pattern_programs
from fxmorph.inductor.firing.reached_lines import Place as Reached
from fxmorph.inductor.firing.reached_lines import reached
from fxmorph.inductor.firing.shares import Source, in_shares, of_each
from fxmorph.inductor.firing.small_program import Built, In, Misfit, Sizes, SmallProgram, build, tensor_spec
from fxmorph.inductor.firing.spoiled import conditions, near_misses, uniform
from fxmorph.inductor.firing.symbolic_programs import with_symbols
from fxmorph.inductor.firing.vocabulary import Vocabulary
from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, aten_packet, mutated_arguments
from fxmorph.torchapi.patterns import Source as Pattern

#: Programs that a pass changes whose near misses are tried, and calls that a program may have.
BASES, STEPS = 8, 12
#: Work for a program that does not run, and for one that is judged, where it is 1 for one on which the pass does not
#: fire; how much more it is where sizes are symbols.
MISFIT, JUDGED, SYMBOLIC = 0.5, 3.0, 4.0
#: Shares of the work as long as the pass fires on too little: for programs to begin with, for those between others,
#: for what grows, for chains.
BEGINNING, PLACING, GROWING, CHAINING = 4.0, 1.0, 4.0, 1.0
#: For symbolic sizes: of a pass that reads sizes by calls, of one that knows symbols, of another.
SIZING = (8.0, 3.0, 1.0)
#: For near misses, as much as for all others: of what the author's own patterns match, where the search is for more;
#: of what fires in symbolic sizes alone, which there is little of; and of what only dead code was removed of.
NEAR, NEAR_STATED, NEAR_SYMBOLIC, NEAR_TIDIED = 8.0, 45.0, 4.0, 2.0
#: Work on programs to begin with, for each unit of their share, before all others begin: the shortest graphs on which a
#: pass fires are found so.
LATER = 5.0
#: For near misses of near misses that fire, and for what fires in symbolic sizes instead.
TWICE, RESIZING = 0.5, 4.0
#: Programs to begin with and near misses that are tried whatever the time, as the author's own patterns are, up to so
#: many times the seconds: a slow machine drops none of the likeliest.
FIRST, LIKELIEST, LENIENCE = 60, 40, 3.0
#: Programs of the same calls, whatever is put around them, that near misses are made of.
ALIKE = 3
#: Near misses that are changed once more, by ten things each.
FURTHER = 20
#: Targets of a pass that looks at so few that each is called in several ways, and calls of all on a value of one shape.
FEW, WAYS = 6, 24
#: Programs of one call that are begun with.
BEGUN = 400
#: Calls between which others are put.
_BEFORE, _BEHIND = torch.ops.aten.sin.default, torch.ops.aten.cos.default
_AROUND = (_BEFORE, _BEHIND, torch.sin, torch.cos)
#: Names of what copies, or writes in place.
_COPIES = frozenset("clone setitem iadd isub imul itruediv".split())
#: Names of what makes a tensor of one number.
_CONSTANT = frozenset("full zeros ones full_like zeros_like ones_like scalar_tensor fill".split())
#: Ways of spelling one call before, or behind.
SPELLINGS = 5


@dataclass(frozen=True)
class Attempt:
    """A program on which the pass fired (``applied``), or raised (``error``); ``near`` says whether a near miss did."""

    built: Built
    applied: Applied | None
    error: Exception | None = None
    near: bool = False


def _as_it_is(built: Built) -> Built:
    return built


@dataclass
class FiringSearch:
    """Looks for programs of one level: ATen's operators (``aten``), or torch's functions.

    ``apply`` runs the pass on a graph; ``writes``: graphs may write into their inputs.  So many programs (``first``)
    and near misses (``likeliest``) are tried whatever the time, up to ``lenience`` times the seconds.  Graphs are on
    ``device``; ``prepare`` says what the pass is given in the place of one, None where it is given none.
    ``symbolic``: sizes are to be symbols, too.  ``tried`` counts graphs that the pass was given, ``withheld`` others.
    """

    apply: Callable[[Built], Applied]
    words: Vocabulary
    noted: Sequence[Pattern]
    aten: bool
    writes: bool
    first: int = FIRST
    likeliest: int = LIKELIEST
    lenience: float = LENIENCE
    device: str = "cpu"
    prepare: Callable[[Built], Built | None] = _as_it_is
    symbolic: bool = False
    tried: int = 0
    withheld: int = 0
    places: set[Reached] = field(default_factory=set)
    bases: list[SmallProgram] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    _shortest: list[SmallProgram] = field(default_factory=list)
    _longer: list[SmallProgram] = field(default_factory=list)
    _tidied: list[SmallProgram] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _plainly: Frontier = field(init=False)
    _sized: Frontier = field(init=False)
    _missed: list[SmallProgram] = field(default_factory=list)
    _named: list[list[SmallProgram]] = field(default_factory=list)
    _alike: Counter[Any] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._plainly, self._sized = Frontier(self._expanded), Frontier(self._expanded)

    def attempts(self, budget: Budget) -> Iterator[Attempt]:
        """What is worth judging."""

        def lasts(source: Source) -> bool:
            sure = source.given < source.sure
            return budget.lasts(self.tried + self.withheld, self.lenience if sure else 1.0)

        for source, program in in_shares(self._sources(), lasts):
            source.work = yield from self._try(program, source.near)

    def on(self, programs: Iterable[SmallProgram]) -> Iterator[Attempt]:
        """What is worth judging of these programs alone."""
        for program in filter(self._is_new, programs):
            yield from self._try(program, True)

    def _is_new(self, program: SmallProgram) -> bool:
        """Whether it is to be tried, which it then counts as."""
        if program.key in self._seen or len(program.steps) > STEPS:
            return False
        self._seen.add(program.key)
        return True

    def _try(self, program: SmallProgram, near: bool) -> Generator[Attempt, None, float]:
        """Returns how much work that was."""
        try:
            built = self.prepare(build(program, self.device))
        except Misfit:
            return MISFIT
        if built is None:
            self.withheld += 1
            return MISFIT
        self.tried += 1
        watching: AbstractContextManager[set[Reached]] = nullcontext(set()) if near else reached(self.words.files)
        with watching as places:
            try:
                applied: Applied | None = self.apply(built)
                error = None
            except Exception as raised:
                applied, error = None, raised
        new = places - self.places
        self.places |= places
        if error is not None:
            self.errors.setdefault(said(error), program.made)
            yield Attempt(built, None, error, near)
        elif applied is not None and applied.fired:
            if near:
                self._missed.append(program)
            elif not applied.tidied:
                within = any(_calls(base) <= _calls(program) for base in self.bases)
                self.bases.append(program)
                (self._longer if within else self._shortest).append(program)
            elif not self._tidied:
                self._tidied.append(program)
            yield Attempt(built, applied, None, near)
        if (applied is None or not applied.fired) and not near:
            (self._plainly if program.sizes is Sizes.STATIC else self._sized).add(program, bool(new))
        work = JUDGED if near and applied is not None and applied.fired else 1.0
        return work if program.sizes is Sizes.STATIC else SYMBOLIC * work

    # -- shares ---------------------------------------------------------------------

    def _sources(self) -> list[Source]:
        enough = max(2 * BASES, len(self.words.targets))

        def tidy(program: SmallProgram) -> Iterator[SmallProgram]:
            return near_misses(program, self._vocabulary, self._may_write)

        def source(programs: Iterator[SmallProgram | None], share: Callable[[], float], **more: Any) -> Source:
            return Source((p for p in programs if p is None or self._is_new(p)), share, **more)

        return [
            source(self._of_patterns(), lambda: math.inf if self._wants(2 * BASES) else 0.0, sure=BEGUN),
            source(self._with_parameters(self._begun()), lambda: self._wants(enough) * BEGINNING, sure=self.first),
            source(of_each(self._named, self._each_placed), lambda: self._wants(enough) * PLACING, start=LATER),
            source(self._with_parameters(self._grown()), lambda: self._wants() * GROWING, start=LATER),
            source(self._with_parameters(self._chains()), lambda: self._wants() * CHAINING, start=LATER),
            source(of_each(self._named, self._each_in_symbols), lambda: self._wants() * self._sizing, start=LATER),
            source(self._sized.grown(), lambda: self._wants() * self._sizing / 2),
            source(of_each(self._shortest, self._near), lambda: self._nearing, near=True, sure=self.likeliest),
            source(of_each(self._longer, self._near), lambda: self._nearing / 2, near=True),
            source(of_each(self._tidied, tidy), lambda: (not self.bases) * NEAR_TIDIED, near=True),
            source(of_each(self.bases if self.symbolic else [], self._in_symbols), lambda: RESIZING, near=True),
            source(self._further(), lambda: TWICE, near=True),
        ]

    def _wants(self, most: int = BASES) -> bool:
        """Whether the pass fires on fewer programs."""
        return len(self.bases) < most

    @property
    def _sizing(self) -> float:
        reads, knows, neither = SIZING
        return reads if self._reads_sizes else knows if self.symbolic else neither

    @property
    def _nearing(self) -> float:
        if all(base.sizes is not Sizes.STATIC for base in self.bases):
            return NEAR_SYMBOLIC
        return NEAR_STATED if self.bases[0].stated else NEAR

    # -- programs -------------------------------------------------------------------

    @cached_property
    def _vocabulary(self) -> Words:
        named = tuple(d for d in self.words.dtypes if not d.is_complex)
        dtypes = named[:4]
        if any(word in name_of(t) for t in self.words.targets for word in ("complex", "as_real")):
            dtypes = (*dtypes, torch.complex64)
        return Words(tuple(self.words.numbers)[:8], dtypes, named, tuple(self._targets))

    @property
    def _may_write(self) -> bool:
        """At torch's level where the pass names what writes, or copies, which are made because of writes: others take
        programs to write nothing, and fx itself takes such calls for dead code.
        """
        named = {*self.words.methods, *map(name_of, self.words.targets)}
        return self.writes and (self.aten or any(n in _COPIES or (n.endswith("_") and n[0] != "_") for n in named))

    @cached_property
    def _targets(self) -> list[Any]:
        found: dict[Any, None] = {}
        for target in self.words.targets:
            for each in self._at_level(target):
                found.setdefault(each)
        return list(found)

    def _at_level(self, target: Any) -> Iterable[Any]:
        if isinstance(target, OpOverload):
            plain = target.namespace not in ("aten", "prims") or not mutated_arguments(target)
            return [target] if self.aten and plain else []
        if isinstance(target, OpOverloadPacket):
            return [o for o in overloads_of(target) if not mutated_arguments(o)] if self.aten else []
        if not self.aten:
            return [target]
        if getattr(target, "__name__", "") == "getitem":
            return [target]
        by_name = not self.words.operators or not self.writes  # what is exported has ATen's operators alone
        packet = aten_packet(name_of(target)) if by_name else None
        return [o for o in overloads_of(packet)[:2] if not mutated_arguments(o)] if packet is not None else []

    def _with_parameters(self, programs: Iterable[SmallProgram | None]) -> Iterator[SmallProgram | None]:
        """As long as the pass fires on none, and looks at such nodes, each also with parameters in the place of all
        inputs but the first.
        """
        for program in programs:
            yield program
            if program is None:
                continue
            plain = len(program.inputs) > 1 and not any(s.constant for s in program.inputs)
            if self.words.attributes and not self.bases and plain:
                inputs = (program.inputs[0], *(replace(s, constant=True) for s in program.inputs[1:]))
                yield replace(program, inputs=inputs, made=f"{program.made} with parameters")

    def _of_patterns(self) -> Iterator[SmallProgram]:
        if self.aten or not any(s.example_inputs for s in self.noted):
            yield from pattern_programs(self.noted, self.words.patterns if self.aten else [])

    def _begun(self) -> Iterator[SmallProgram]:
        if not self.writes:
            both = SmallProgram((tensor_spec((4, 6)),), (), (In(0),), "an input that is a result", shared=True)
            yield both
        targets = self._targets
        most = WAYS // len(targets) if 0 < len(targets) <= FEW else 1
        self._named.extend([] for _ in targets)
        singles = [_noted(begun(t, self._vocabulary, most), at) for t, at in zip(targets, self._named, strict=True)]
        common = (program for program in self._commonplace() if self.writes or not _writes(program))
        yield from _in_turn([itertools.islice(_in_turn(singles), BEGUN), common])

    def _commonplace(self) -> Iterator[SmallProgram]:
        """What every stage knows; functions by numpy's names where the pass knows such names."""
        yield from commonplace(self.aten)
        if not self.aten and self.words.numpy:
            yield from programs_by_numpy_names()

    def _placed(self, program: SmallProgram) -> Iterator[SmallProgram]:
        """On what is constant throughout, first where the pass names what makes such; between other calls, where
        neither what it reads is an input nor what it gives a result; and twice on one input.
        """
        folds = any(name_of(target) in _CONSTANT for target in self.words.targets)
        if folds:
            yield from uniform(program)
        before, behind = (_BEFORE, _BEHIND) if self.aten else (torch.sin, torch.cos)
        for front in itertools.islice(prepended(program, 0, before, self._vocabulary), 1):
            yield from itertools.islice(appended(front, behind, self._vocabulary), 1)
        yield from siblings(program)
        if not folds:
            yield from uniform(program)

    def _each_placed(self, programs: Sequence[SmallProgram]) -> Iterator[SmallProgram | None]:
        return of_each(programs, self._placed, at_once=False)

    def _each_in_symbols(self, programs: Sequence[SmallProgram]) -> Iterator[SmallProgram | None]:
        return of_each(programs, self._in_symbols, at_once=False)

    def _in_symbols(self, program: SmallProgram) -> Iterator[SmallProgram]:
        return with_symbols(program, self._forms)

    @property
    def _forms(self) -> tuple[Sizes, ...]:
        """How graphs of the level have sizes: only what is exported, and so takes no writes, reads them by calls."""
        reads = self._reads_sizes or not self.writes
        return (Sizes.READ, Sizes.GIVEN) if reads else (Sizes.GIVEN, Sizes.READ)

    @property
    def _reads_sizes(self) -> bool:
        """Whether the pass names calls that read sizes."""
        return any(name_of(t) in ("sym_size", "size") for t in self.words.targets)

    def _chains(self) -> Iterator[SmallProgram]:
        def at_level(targets: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(each for target in targets for each in self._at_level(target))

        orders = [[Place(at_level((t,))) for t in listed] for listed in self.words.listed]
        text = [Place(at_level(named.targets), tuple(named.numbers)) for named in self.words.sequence]
        yield from chains(text, orders, self._vocabulary)

    def _grown(self) -> Iterator[SmallProgram | None]:
        for program in list(_singles(self._targets, self._vocabulary)):
            self._plainly.add(program, True)
        yield from self._plainly.grown()

    def _near(self, base: SmallProgram) -> Iterator[SmallProgram]:
        """Near misses of a program; none where those of others that are like it are tried already."""
        calls = frozenset(_calls(base).items())
        self._alike[calls] += 1
        if self._alike[calls] <= ALIKE:
            yield from near_misses(base, self._vocabulary, self._may_write)

    def _further(self) -> Iterator[SmallProgram | None]:
        """Near misses of near misses that the pass changes as well: two things otherwise; None as long as there are
        none of these.
        """
        place = random.Random(0)
        for _ in range(FURTHER):
            while not self._missed:
                yield None
            near = self._missed.pop(place.randrange(len(self._missed)))
            yield from itertools.islice(near_misses(near, self._vocabulary, self._may_write), 10)

    def _expanded(self, program: SmallProgram) -> Iterator[SmallProgram]:
        words, targets = self._vocabulary, self._targets
        streams: list[Iterator[SmallProgram]] = []
        for at in range(min(3, len(program.inputs))):
            streams.append(_each(lambda t, at=at: prepended(program, at, t, words), targets))  # type: ignore[misc]
        streams.append(_each(lambda t: appended(program, t, words), targets))
        if len(program.inputs) > 1:
            streams.append(_each(lambda t: prepended_to_each(program, t, words), targets))
        streams += [respelled(program, words, i) for i in range(len(program.steps))]
        streams += [conditions(program), merged_inputs(program), crossed(program)]
        return _in_turn(streams)


def _calls(program: SmallProgram) -> Counter[Any]:
    """How often each target is called, but for those that others are only put between."""
    return Counter(getattr(s.target, "func", s.target) for s in program.steps if s.target not in _AROUND)


def _writes(program: SmallProgram) -> bool:
    return any(isinstance(s.target, OpOverload) and bool(mutated_arguments(s.target)) for s in program.steps)


def _each(make: Callable[[Any], Iterator[SmallProgram]], targets: Sequence[Any]) -> Iterator[SmallProgram]:
    """Of each target the first spelling, then further ones."""
    return _in_turn([itertools.islice(make(target), SPELLINGS) for target in targets])


def _in_turn(streams: Sequence[Iterator[SmallProgram]]) -> Iterator[SmallProgram]:
    left = list(streams)
    while left:
        for stream in list(left):
            program = next(stream, None)
            if program is None:
                left.remove(stream)
            else:
                yield program


def _noted(programs: Iterator[SmallProgram], into: list[SmallProgram]) -> Iterator[SmallProgram]:
    for program in programs:
        into.append(program)
        yield program


def _singles(targets: Sequence[Any], words: Words) -> Iterator[SmallProgram]:
    for target in targets[:12]:
        yield from begun(target, words)
