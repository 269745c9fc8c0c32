"""Several calls in a row, of what a pass names, in the order in which its text names it.

A pass that looks for three calls or more names them as it walks: from the last one through what each reads, or from
the first one through users.  Which call comes next is therefore next in the text, and so is which came before.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fxmorph.inductor.derive.derived_graph import spec_for
from fxmorph.inductor.firing.argument_values import Given, Words
from fxmorph.inductor.firing.growing import before_each, crossed, gathered, merged_inputs, value_of, with_call
from fxmorph.inductor.firing.operator_calls import Call, calls, first_shapes, name_of, takes_numbers
from fxmorph.inductor.firing.results import called, shapes_of
from fxmorph.inductor.firing.small_program import In, Misfit, Out, SmallProgram, Step, references, tensor_spec
from fxmorph.programs.inputs import dtype_name
from fxmorph.torchapi.fake import FakeTensorMode, unlogged

#: How many calls a chain has, the likeliest first; places of the text that are begun at.
LENGTHS, PLACES = (3, 4, 2, 5), 40
#: Ways to spell a call of which each is tried; those that are kept of one; chains that are continued, and that end.
SPELLED, KEPT, BEAM, ENDS = 24, 3, 8, 20
#: Calls that change nothing where they leave the shape as it is: of one call alone there are such.
_RESHAPING = frozenset("view reshape _unsafe_view view_copy expand expand_copy broadcast_to".split())
#: Calls that change nothing where they leave the dtype as it is; what is narrow enough that two more hold its values.
_CASTS = frozenset(
    "_to_copy to type convert_element_type float double half bfloat16 int long short char byte bool".split()
)
_NARROW = (torch.float16, torch.bfloat16, torch.uint8, torch.int8)
#: Casts that are kept of all that a pass names.
MOST_CASTS = 8
#: Numbers beside a name that are looked at.
NUMBERS = 4
#: Of each chain, those in which two inputs are one, or an input is the result of an earlier call; chains of each order
#: of which that comes before the next order.
MERGED, CROSSED, FIRST = 1, 4, 3
#: Shapes that a chain may begin with.
BEGINNINGS = 3


@dataclass(frozen=True)
class Place:
    """What may stand at one place: targets of which one fits, and numbers that are likely among its arguments."""

    targets: tuple[Any, ...]
    numbers: tuple[float, ...] = ()


def chains(sequence: Sequence[Place], orders: Sequence[Sequence[Place]], words: Words) -> Iterator[SmallProgram]:
    """Of these orders and of pieces of the text's ``sequence``, each forwards and backwards; those are shorter that
    have calls which fit nowhere.
    """
    tried: set[tuple[Any, ...]] = set()
    later: list[_Chain] = []
    every = _Chains(words)
    for order in (*orders, *_pieces([place for place in sequence if place.targets])):
        for directed in (tuple(order), tuple(reversed(order))):
            key = tuple((place.targets, place.numbers) for place in directed)
            if len(directed) > 1 and all(place.targets for place in directed) and key not in tried:
                tried.add(key)
                found = every.of(directed)
                later += found[FIRST:]
                yield from (chain.program for chain in found)
                for chain in found[:FIRST]:
                    yield from _variants(chain)
    for chain in later:
        yield from _variants(chain)


def _pieces(sequence: Sequence[Place]) -> Iterator[Sequence[Place]]:
    """Two casts of all that are named; what is named next to each other, a name that comes again at once taken as
    one; then a call between two of another, which passes look for that move one of these through it.
    """
    named = [next(iter(same)) for _, same in itertools.groupby(sequence, lambda place: place.targets)]
    casts = tuple(dict.fromkeys(t for place in named for t in place.targets if name_of(t) in _CASTS))
    if casts:
        yield (Place(casts), Place(casts))
    for start in range(min(len(named), PLACES)):
        for length in LENGTHS:
            if start + length <= len(named):
                yield named[start : start + length]
    for one, other in itertools.islice(itertools.pairwise(named), PLACES):
        yield (one, other, one)
        yield (other, one, other)


@dataclass(frozen=True)
class _Chain:
    """A program with its (fake) result, and what it was before its last call."""

    program: SmallProgram
    value: Any
    front: _Chain | None = None


@dataclass
class _Chains:
    """Chains by what they are of and the shape and dtype that they begin with: many orders begin alike."""

    words: Words
    known: dict[Any, list[_Chain]] = field(default_factory=dict)

    def of(self, places: Sequence[Place]) -> list[_Chain]:
        """Those that begin with each shape in turn."""
        shapes = dict.fromkeys(shape for place in places for target in place.targets for shape in first_shapes(target))
        starts = [(shape, torch.float32) for shape in itertools.islice(shapes, BEGINNINGS)]
        if any(name_of(target) in _CASTS for place in places for target in place.targets):
            starts += [(shape, dtype) for shape, _ in starts[:1] for dtype in _NARROW if dtype in self.words.casts]
        with unlogged(), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            ends = [self._from(start, tuple(places)) for start in starts]
        in_turn = (chain for turn in itertools.zip_longest(*ends) for chain in turn if chain is not None)
        return [chain for chain in in_turn if len(chain.program.steps) > 1]

    def _from(self, start: tuple[tuple[int, ...], torch.dtype], places: tuple[Place, ...]) -> list[_Chain]:
        if not places:
            shape, dtype = start
            spec = tensor_spec(shape, dtype_name(dtype))
            return [_Chain(SmallProgram((spec,), (), (In(0),)), torch.empty(shape, dtype=dtype))]
        key = (start, places)
        if key not in self.known:
            shorter = self._from(start, places[:-1])[:BEAM]
            longer = [list(_continued(chain, places[-1], self.words)) for chain in shorter]
            in_turn = (each for turn in itertools.zip_longest(*longer) for each in turn if each is not None)
            self.known[key] = list(itertools.islice(in_turn, ENDS)) or shorter
        return self.known[key]


def _variants(chain: _Chain) -> Iterator[SmallProgram]:
    yield from _before_operands(chain)
    yield from itertools.islice(merged_inputs(chain.program), MERGED)
    yield from itertools.islice(crossed(chain.program), CROSSED)


def _continued(chain: _Chain, place: Place, words: Words) -> Iterator[_Chain]:
    """With a call behind; several where results are of other shapes."""
    if isinstance(chain.value, (tuple, list)) and operator.getitem not in place.targets:
        tensors = [i for i, v in enumerate(chain.value) if isinstance(v, torch.Tensor)]
        if not tensors:
            return
        at = chain.program.outputs[0]
        for target in place.targets:
            yield from _of_all(chain, gathered(chain.program, at, chain.value, target, words))
        picked = Step("call_function", operator.getitem, (at, tensors[0]))
        steps = (*chain.program.steps, picked)
        chain = _Chain(replace(chain.program, steps=steps, outputs=(Out(len(steps) - 1),)), chain.value[tensors[0]])
    met: set[Any] = set()
    for target in place.targets:
        told = _with_numbers(target, place.numbers)
        for call in itertools.chain(told, itertools.islice(calls(target, chain.value, words), SPELLED)):
            try:
                value = called(call, chain.value)
            except Exception:  # arguments that do not fit
                continue
            looks = (shapes_of(value), shapes_of(call.args), getattr(value, "dtype", None))
            if looks in met or _changes_nothing(name_of(target), chain.value, value):
                continue
            met.add(looks)
            program = with_call(chain.program, call, chain.program.outputs[0])
            made = " > ".join(p for p in (chain.program.made, name_of(target)) if p)
            yield _Chain(replace(program, made=made), value, chain)
            if len(met) >= (MOST_CASTS if len(place.targets) > 1 and name_of(target) in _CASTS else KEPT):
                return


def _of_all(chain: _Chain, programs: Iterator[SmallProgram]) -> Iterator[_Chain]:
    for program in itertools.islice(programs, KEPT):
        try:
            yield _Chain(program, value_of(program), chain)
        except Misfit:
            continue


def _changes_nothing(name: str, value: Any, now: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(now, torch.Tensor):
        return False
    return (name in _RESHAPING and now.shape == value.shape) or (name in _CASTS and now.dtype == value.dtype)


def _with_numbers(target: Any, numbers: Sequence[float]) -> Iterator[Call]:
    """The call with what is said of numbers beside it, two of them and each alone."""
    if isinstance(target, type):
        return
    op = "call_method" if isinstance(target, str) else "call_function"
    for count in (2, 1):
        for start in range(min(len(numbers) - count + 1, NUMBERS)):
            given = numbers[start : start + count]
            if takes_numbers(target, given):
                yield Call(op, target, (Given(), *given))


def _before_operands(chain: _Chain) -> Iterator[SmallProgram]:
    """The calls before the last one come before each of its operands, or each but the first."""
    front = chain.front
    if front is None or not front.program.steps or not isinstance(front.value, torch.Tensor):
        return
    last = chain.program.steps[-1]
    spec, name = spec_for(front.value), front.program.made
    own = [In(i) for i in range(len(front.program.inputs), len(chain.program.inputs))]
    inputs = (spec, *(chain.program.inputs[i.at] for i in own))

    def alone(ref: Any) -> Any:
        return In(0) if ref == front.program.outputs[0] else In(own.index(ref) + 1)

    try:
        args, kwargs = references(last.args, alone), references(tuple(last.kwargs), alone)
    except ValueError:  # it reads what came earlier still
        return
    step = SmallProgram(inputs, (replace(last, args=args, kwargs=kwargs),), (Out(0),), name_of(last.target))
    alike = [i for i, each in enumerate(step.inputs) if each.shape == spec.shape]
    for places in (alike[1:], alike):
        if len(places) > 1:
            yield before_each(step, places, [front.program] * len(places), name)
