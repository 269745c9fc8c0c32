"""The search for graphs that a pass changes: what it names in small programs, and changes of those that it reads on.

A program that runs lines of the pass that no other one ran is worth changing; one that the pass changes is worth
judging, and its near misses are.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fxmorph.core.said import said
from fxmorph.inductor.apply import Applied
from fxmorph.inductor.firing.chains import Place, chains
from fxmorph.inductor.firing.commonplace import commonplace
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
from fxmorph.inductor.firing.operator_calls import Words, name_of, overloads_of
from fxmorph.inductor.firing.pattern_programs import pattern_programs
from fxmorph.inductor.firing.reached_lines import Place as Reached
from fxmorph.inductor.firing.reached_lines import reached
from fxmorph.inductor.firing.small_program import Built, In, Misfit, Sizes, SmallProgram, build, tensor_spec
from fxmorph.inductor.firing.spoiled import conditions, near_misses, uniform
from fxmorph.inductor.firing.symbolic_programs import with_symbols
from fxmorph.inductor.firing.vocabulary import Vocabulary
from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, aten_packet, mutated_arguments
from fxmorph.torchapi.patterns import Source

#: Programs that a pass changes whose near misses are tried, and calls that a program may have.
BASES, STEPS = 8, 12
#: The share of the time after which no further program is looked for, once there are some; where those are patterns.
SEARCHING, STATED = 0.5, 0.15
#: Where dead code is all that the pass removed.
SEARCHED_LONG = 0.8
#: Near misses that are tried whatever the time, as the author's own patterns are, up to so many times the seconds: a
#: slow machine drops none of the likeliest.
LIKELIEST, LENIENCE = 40, 3.0
#: Programs of the same calls, whatever is put around them, that near misses are made of.
ALIKE = 3
#: Near misses that are changed once more, by ten things each.
FURTHER = 20
#: Targets of a pass that looks at so few that each is called in several ways at once.
FEW = 6
#: Programs of one call that are begun with.
BEGUN = 400
#: The share of the time for programs to begin with, and up to which nothing but what grows of them comes behind: the
#: shortest graphs on which a pass fires are found so, and what is overlooked shows near these first.
EARLY, GROWING = 0.5, 0.6
#: The share of the time after which sizes are symbols of a pass that names nothing of them, too.
LATE = 0.8
#: Calls between which others are put.
_BEFORE, _BEHIND = torch.ops.aten.sin.default, torch.ops.aten.cos.default
_AROUND = (_BEFORE, _BEHIND, torch.sin, torch.cos)
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
    ``symbolic``: sizes are to be symbols, too.
    """

    apply: Callable[[Built], Applied]
    words: Vocabulary
    noted: Sequence[Source]
    aten: bool
    writes: bool
    first: int = 0
    likeliest: int = LIKELIEST
    lenience: float = LENIENCE
    device: str = "cpu"
    prepare: Callable[[Built], Built | None] = _as_it_is
    symbolic: bool = False
    tried: int = 0
    places: set[Reached] = field(default_factory=set)
    bases: list[SmallProgram] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    _tidied: list[SmallProgram] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _frontier: list[Iterator[SmallProgram]] = field(default_factory=list)
    _missed: list[SmallProgram] = field(default_factory=list)
    _small: list[SmallProgram] = field(default_factory=list)
    _plain: list[SmallProgram] = field(default_factory=list)

    def _with_parameters(self, programs: Iterable[SmallProgram]) -> Iterator[SmallProgram]:
        """As long as the pass fires on none, and looks at such nodes, each also with parameters in the place of all
        inputs but the first.
        """
        for program in programs:
            yield program
            plain = len(program.inputs) > 1 and not any(s.constant for s in program.inputs)
            if self.words.attributes and not self.bases and plain:
                inputs = (program.inputs[0], *(replace(s, constant=True) for s in program.inputs[1:]))
                yield replace(program, inputs=inputs, made=f"{program.made} with parameters")

    def attempts(self, seconds: float) -> Iterator[Attempt]:
        """What is worth judging, for so many CPU seconds."""
        began = time.process_time()
        end = began + seconds
        lenient = began + self.lenience * seconds
        for program in self._of_patterns():
            if time.process_time() > lenient or len(self.bases) >= 2 * BASES:
                break
            yield from self._try(program, False)
        first = 0 if self.bases else self.first
        begun = self._with_parameters(self._begun())
        for number, program in enumerate(begun):
            if time.process_time() > (began + min(EARLY, self._share) * seconds if number >= first else lenient):
                begun = itertools.chain([program], begun)
                break
            if number >= first and len(self.bases) >= max(2 * BASES, len(self.words.targets)):
                break
            yield from self._try(program, False)
        for program in self._with_parameters(self._longer(begun, began, seconds)):
            if time.process_time() > (began + self._share * seconds) or len(self.bases) >= BASES:
                break
            yield from self._try(program, False)
        if not self.bases:
            self.bases += self._tidied[:1]
        for number, program in enumerate(itertools.chain(self._nearby(), self._further())):
            if time.process_time() > (end if number >= self.likeliest else lenient):
                break
            yield from self._try(program, True)

    def on(self, programs: Iterable[SmallProgram]) -> Iterator[Attempt]:
        """What is worth judging of these programs alone."""
        for program in programs:
            yield from self._try(program, True)

    @property
    def _share(self) -> float:
        """Of the time for further programs: none is wanted where the author's own patterns fire."""
        if all(base.sizes is not Sizes.STATIC for base in self.bases):  # these are tried late, and few so far
            return SEARCHED_LONG if self._tidied else 1.0
        return STATED if self.bases[0].stated else SEARCHING

    def _try(self, program: SmallProgram, near: bool) -> Iterator[Attempt]:
        if program.key in self._seen or len(program.steps) > STEPS:
            return
        self._seen.add(program.key)
        try:
            built = self.prepare(build(program, self.device))
        except Misfit:
            return
        if built is None:
            return
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
            (self._missed if near else self._tidied if applied.tidied else self.bases).append(program)
            yield Attempt(built, applied, None, near)
        if applied is None or not applied.fired:
            if new:
                self._frontier.append(self._expanded(program))
            elif not near and len(program.steps) < 4:
                self._small.append(program)

    # -- programs -------------------------------------------------------------------

    @property
    def _vocabulary(self) -> Words:
        dtypes = tuple(d for d in self.words.dtypes if not d.is_complex)[:4]
        if any(word in name_of(t) for t in self.words.targets for word in ("complex", "as_real")):
            dtypes = (*dtypes, torch.complex64)
        return Words(tuple(self.words.numbers)[:8], dtypes)

    @property
    def _may_write(self) -> bool:
        """At torch's level where the pass names what writes: fx itself takes such calls for dead code."""
        return self.writes and (self.aten or any(m.endswith("_") for m in self.words.methods))

    @property
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
        packet = aten_packet(name_of(target)) if not self.words.operators else None
        return [o for o in overloads_of(packet)[:2] if not mutated_arguments(o)] if packet is not None else []

    def _of_patterns(self) -> Iterator[SmallProgram]:
        if self.aten or not any(s.example_inputs for s in self.noted):
            yield from pattern_programs(self.noted, self.words.patterns if self.aten else [])

    def _begun(self) -> Iterator[SmallProgram]:
        if not self.writes:
            both = SmallProgram((tensor_spec((4, 6)),), (), (In(0),), "an input that is a result", shared=True)
            yield both
        targets = self._targets
        most = 4 if len(targets) <= FEW else 1
        plain = self._plain
        named = itertools.islice(_in_turn([begun(t, self._vocabulary, most) for t in targets]), BEGUN)
        common = (program for program in self._commonplace() if self.writes or not _writes(program))
        yield from _in_turn([_noted(named, plain), common])
        yield from _in_turn([self._placed(program) for program in plain])

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

    def _longer(self, begun: Iterator[SmallProgram], began: float, seconds: float) -> Iterator[SmallProgram]:
        """What grows, then in turn with chains of calls and what is left of those that were begun with; half of these
        have symbolic sizes, from then on of a pass that knows such, late of others; from the start where calls that
        read sizes are named.
        """
        self._frontier.extend(self._expanded(p) for p in list(_singles(self._targets, self._vocabulary)))
        grown, sized = self._grown(), self._sized()
        first = _in_turn([grown, grown, sized]) if self.symbolic and self._reads_sizes else grown
        yield from _until(first, began + GROWING * seconds)
        longer = _in_turn([self._chains(), begun, self._grown()])
        if not self.symbolic:
            yield from _until(longer, began + LATE * seconds)
        yield from _in_turn([sized, longer])

    def _sized(self) -> Iterator[SmallProgram]:
        """Programs of one call with symbolic sizes, the likeliest of each first."""
        yield from _in_turn([with_symbols(program, self._forms) for program in self._plain])

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

    def _grown(self) -> Iterator[SmallProgram]:
        """Changes of what was read on, the latest first, and of every other in turn."""
        turn, place = 0, random.Random(0)
        while self._frontier or self._small:
            if not self._frontier:  # what has led nowhere, changed once more
                self._frontier.append(self._expanded(self._small.pop(place.randrange(len(self._small)))))
            turn += 1
            stream = self._frontier[-1 if turn % 3 else turn // 3 % len(self._frontier)]
            found = next(stream, None)
            if found is None:
                self._frontier.remove(stream)
            else:
                yield found

    def _further(self) -> Iterator[SmallProgram]:
        """Near misses of near misses that the pass changes as well: two things otherwise."""
        place = random.Random(0)
        for _ in range(FURTHER if self._missed else 0):
            if not self._missed:
                return
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

    def _nearby(self) -> Iterator[SmallProgram]:
        """Near misses; behind the likeliest, which cost less, in turn with the bases in symbolic sizes."""
        near = self._near()
        yield from itertools.islice(near, self.likeliest)
        sized = [with_symbols(base, self._forms) for base in self.bases] if self.symbolic else []
        yield from _in_turn([near, _in_turn(sized)])

    def _near(self) -> Iterator[SmallProgram]:
        """Near misses of every base in turn; of what became a base meanwhile too."""
        streams: list[Iterator[SmallProgram]] = []
        known = 0
        alike: Counter[Any] = Counter()
        while True:
            for base in self.bases[known:]:
                known += 1
                calls = tuple(getattr(s.target, "func", s.target) for s in base.steps if s.target not in _AROUND)
                alike[calls] += 1
                if alike[calls] <= ALIKE:
                    streams.append(near_misses(base, self._vocabulary, self._may_write))
            if not streams:
                return
            for stream in list(streams):
                program = next(stream, None)
                if program is None:
                    streams.remove(stream)
                else:
                    yield program


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


def _until(programs: Iterator[SmallProgram], end: float) -> Iterator[SmallProgram]:
    """Those that come up to a time; the others are left."""
    while time.process_time() <= end and (program := next(programs, None)) is not None:
        yield program


def _noted(programs: Iterator[SmallProgram], into: list[SmallProgram]) -> Iterator[SmallProgram]:
    for program in programs:
        into.append(program)
        yield program


def _singles(targets: Sequence[Any], words: Words) -> Iterator[SmallProgram]:
    for target in targets[:12]:
        yield from begun(target, words)
