"""The arguments that a rule is proved and tried on, the same in every process: where what rules get wrong shows.

Each named size is 0 and 1 alone, sizes are odd and unequal, divide evenly, are large; strides are permuted, gapped
and expanded; there are offsets, arguments that share memory, integers beyond 0 and 1, and what the rule's text names.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from fxmorph.programs.inputs import is_integer_dtype, spec_of
from fxmorph.prove.certificates import instance_text
from fxmorph.prove.rule_text import (
    asks_for_layout,
    asks_for_sizes,
    asks_for_text,
    computed_sizes,
    computes_sizes,
    decides,
    divides_sizes,
    told_numbers,
    told_sizes,
    writes,
)
from fxmorph.rewriting.instances import Instance, holds, over_memory, sizes_of
from fxmorph.rewriting.samples import (
    FIRST,
    LARGE,
    broadcasting,
    numbers_for,
    relaid,
    sample_arguments,
    sample_values,
    sharing,
    too_large,
)
from fxmorph.rules import Rule

#: How many arguments of a rule are proved, and how many more eager alone tries to refute: shapes that a
#: rule forgets are the same for all of its dtypes, so that the first one gets most of them.
PROVED, TRIED, TRIED_AGAIN = 10, 50, 18
#: More for a rule that does one thing or another by what it is given: sizes up to this, each alone.
EACH_SIZE = 20
#: Sizes that each draw is made of, in turn.  The small ones come first: those are proved.
POOLS: tuple[tuple[int, ...], ...] = (
    (3, 5, 7), (1,), (0, 2), (2, 4, 8), (1, 2, 3), (4, 6, 12), (0, 1), (3,), (5, 6, 7, 9, 10), (1, 4, 9),
)  # fmt: skip
#: For eager alone: around what vectors, blocks, bytes and lists of 16, 32, 64 ... hold, and small again.
LARGE_POOLS: tuple[tuple[int, ...], ...] = (
    (17, 13), (1025,), (0, 2), (33, 31), (257,), (200,), (129, 127), (0, 1, 3), (2049, 1100), (65,), (300,),
    (3, 4, 6, 8), (48, 96, 24),
)  # fmt: skip
#: For a rule that looks at sizes: where one dimension is two or three times as large as another, and a bit.
_UNLIKE = range(2, 13)
_UNLIKE_DIMENSIONS = ((3, 2, 8), (8, 3), (3, 8), (8, 2, 3))
#: Sizes whose product a dtype does not count.
_UNCOUNTED = {"int8": ((3, 100), (40, 41), (12, 13)), "uint8": ((3, 100), (40, 41), (16, 17)), "int16": ((200, 201),)}
#: Pairs of sizes of a rule that divides one by another: few of all pairs round to another whole number.
_DIVIDED = 250
#: What ``...`` stands for beside random sizes: dimensions that may be taken for each other, and ones of size 1.
_DIMENSIONS = (
    (2, 2, 2, 2), (3, 1, 2), (2, 2, 2), (3, 1, 4, 2), (2, 2), (3, 4, 1, 2), (2, 3, 1), (1, 3, 2), (2, 1, 3, 2, 2),
    (1, 2, 1, 2, 1, 3),
)  # fmt: skip
#: So many other values of scalars that may be any number are tried where the pattern does not run.
_OTHER_NUMBERS = 80
#: How often other dtypes, and sizes that depend on each other, are drawn where the pattern does not run.
_AGAIN = 12
#: Large sizes that each named size has alone: more than float16 counts to, and many blocks.
ALONE = (2051, 3100)
#: Beside a large size.
_SMALL = (1, 2, 3)
#: Integers that are arguments of a mixed rule, in turn: indices from either end, counts, and beyond what is narrow.
INTEGERS: tuple[tuple[int, ...], ...] = (
    (0, 1), (0, 1, 2), (-1, 0, 1), (0, 1, -100), (-3, -2, -1, 0, 1, 2, 3), (257, 2049, 2**24 + 1), (2, 3, 5, 7),
    (0, 1, 2, 3), (100, -100, 5), (127, 128, 255, 256, 1000, -129),
    (2**24 + 1, 2**31, 2**32, 2**53 + 1, -(2**31) - 1, 0, 1), (0, 1, 2**32, -(2**32)),
)  # fmt: skip
#: How arguments lie in memory, in turn.
_LAYOUTS = ("plain", "permuted", "shared", "gaps", "plain", "expanded", "shared", "permuted", "as it is")
#: The same for a rule of several arguments that writes.
_SHARING = ("shared", "shared", "plain", "shared")
#: More of them for a rule that looks at that.
_OTHER_LAYOUTS = (
    "expanded", "permuted", "gaps", "rows", "permuted", "expanded", "permuted", "expanded", "gaps", "as it is",
)  # fmt: skip


def arguments_of(rule: Rule, dtype: str, count: int) -> Iterator[Instance]:
    """Distinct arguments, the same in every process; fewer than ``count`` where none are found."""
    rng = random.Random(rule.id)  # the same shapes for all dtypes
    seen: set[str] = set()
    words = _words(rule)
    corners = [{place: size} for size in _each_alone(rule) for place in _places(rule)]
    if decides(rule) or asks_for_text(rule):
        corners += [corner for corner in corners if not {0, 1, *ALONE}.issuperset(corner.values())]
    whole = sorted({int(n) for n in told_numbers(rule) if n == int(n)})
    told = [tuple(whole), tuple(-n for n in whole)] if rule.mixed and whole else []
    layouts = _layouts(rule)
    linkable = "..." in words and len(words) > 1
    unlike = asks_for_sizes(rule) and "..." in words
    exact = [*_DIMENSIONS, *(_UNLIKE_DIMENSIONS if unlike else ())] if "..." in words else []
    turn = 0  # of arguments that are not empty
    for attempt in range(3 * count):
        # Corners stand in for every second of the small pools, and then come in between.
        sizes, leading = _sizes(attempt, len(words) > 1, rng)
        if unlike and attempt >= len(POOLS) and attempt % 3:
            sizes = leading = rng.sample(_UNLIKE, 4)
        pools = (*INTEGERS, *told)
        integers = pools[attempt % len(pools)]
        fixed: Mapping[str, int] = {}
        if (
            attempt >= 4
            and attempt % 2 == 0
            and corners
            and (attempt > PROVED or {0, 1}.issuperset(corners[0].values()))
        ):
            sizes, leading, fixed = (2, 3), (2, 3), corners.pop(0)
            if told and not {0, 1, *ALONE}.issuperset(fixed.values()):
                integers = told[0]  # an index that a size of the text allows
        sample, of_dimensions = None, False
        if attempt > PROVED and attempt % 2 and exact:
            sample = sample_arguments(rule, rng, 10, (dtype,), (2,), (), integers, exactly=exact.pop(0))
            of_dimensions = sample is not None
        if sample is None:
            sample = sample_arguments(rule, rng, 60, (dtype,), sizes, leading, integers, fixed)
        if sample is None and fixed:  # another size must be 1, or the same
            few = (1, 2, *fixed.values())
            sample = sample_arguments(rule, rng, 60, (dtype,), few, few, integers, fixed)
            if sample is None:  # or a multiple of something
                sample = sample_arguments(rule, rng, 200, (dtype,), integers=integers, fixed=fixed)
        if sample is None and rule.mixed:  # of this dtype alone there are none: a mask beside numbers
            sample = sample_arguments(rule, rng, 60, (), sizes, leading, integers, fixed)
        if sample is None and attempt % len(POOLS) == 0:
            # Sizes or dtypes that must fit together: whatever the rule takes.
            sample = sample_arguments(rule, rng, dtypes=() if rule.mixed else (dtype,))
        if sample is None:
            continue
        if of_dimensions:  # each dimension that a scalar may name, of the same tensors
            samples = [(sample[0], scalars) for scalars in _each_dimension(rule, *sample)]
        else:
            samples = [(sample[0], _scalars_in_turn(rule, *sample, turn))]
        sample = samples[0]
        turn += all(t.numel() for t in sample[0].values())
        hows = [layouts[attempt % len(layouts)]]
        if fixed and hows[0] == "shared":
            hows.append("plain")  # where one argument is another, what a size alone gets wrong may cancel
        if hows[0] == "shared" and writes(rule):
            hows += ["overlapping", "overlapping"]  # reads what was written, in one order of the two or the other
        if attempt % 3 == 1:
            hows.append("broadcast")
        if asks_for_layout(rule) and any(1 in t.shape for t in sample[0].values()):
            hows.append("loose")
        for (tensors, scalars), laid in itertools.product(samples, hows):
            instance = _laid_out(rule, tensors, scalars, rng, laid)
            if too_large(instance):
                continue
            draw = functools.partial(sample_arguments, rule, rng, 20, (dtype,), sizes, leading, integers, fixed)
            kinds = (False,) * rule.mixed + (True,) * linkable
            instance = _runnable(instance, rng) or _drawn_again(rule, draw, kinds, rng, laid) or instance
            text = f"{instance_text(instance)} {[instance.tensors[n].tolist() for n in sorted(instance.known())]}"
            if text not in seen:
                seen.add(text)
                yield instance
                if len(seen) >= count:
                    return


def arguments_of_each_size(rule: Rule, dtype: str) -> Iterator[Instance]:
    """Arguments with each small size alone, for a rule one of whose sides does not run for every size."""
    rng = random.Random(rule.id)
    for place in _places(rule):
        for size in range(1, EACH_SIZE + 1):
            sample = sample_arguments(rule, rng, 60, (dtype,), (2, 3), (2, 3), fixed={place: size})
            if sample is not None:
                yield Instance(rule, *sample)


def aimed_arguments(rule: Rule, dtype: str) -> Iterator[Instance]:
    """More of a rule whose dtypes or operators say what it may get wrong, for eager alone.

    Indices from either end; integers of few bits beside sizes that those do not count; two sizes that an operator
    divides in floating point.
    """
    rng = random.Random(rule.id)
    floats = [d for d in rule.dtypes if d != dtype and getattr(torch, d).is_floating_point]
    for integers in INTEGERS if rule.mixed else ():  # of an integer dtype other draws may find few beside floats
        sample = sample_arguments(rule, rng, 60, (dtype,), (3, 5), (3, 5), integers, beside=[dtype, *floats])
        if sample is not None:
            yield Instance(rule, *sample)
    for narrow in (d for d in ("int8", "uint8", "int16") if rule.mixed and d in rule.dtypes):
        for sizes in _UNCOUNTED[narrow]:
            pool = range(-(2**7), 2**7)
            sample = sample_arguments(rule, rng, 60, (dtype,), sizes, sizes, pool, beside=[narrow, narrow, *floats])
            if sample is not None and not too_large(instance := Instance(rule, *sample)):
                yield instance
    if divides_sizes(rule):
        for _ in range(_DIVIDED):
            sample = sample_arguments(rule, rng, 20, (dtype,), range(1, 65), (1, 2))
            if sample is not None and not too_large(instance := Instance(rule, *sample)):
                yield instance


def _words(rule: Rule) -> list[str]:
    """Sizes of the arguments by name, ``...`` among them, each once."""
    return list(dict.fromkeys(w for text in rule.args.values() for w in sizes_of(text) if not w.isdigit()))


def _places(rule: Rule) -> list[str]:
    """Sizes of the arguments: named ones, and the first and last of those that ``...`` stands for."""
    words = _words(rule)
    return [*words, *([FIRST] if "..." in words else [])]


def scalar_choices(rule: Rule, name: str) -> tuple[Any, ...]:
    """What a scalar is drawn from: its own choices, else common numbers, bounds of conditions, numbers of the text."""
    told = (n for n in told_numbers(rule) if abs(n) <= LARGE) if rule.scalars[name] is None else ()
    return (*numbers_for(rule, name), *told)


def _scalars_in_turn(
    rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], turn: int
) -> dict[str, Any]:
    """One after the other of what each scalar may be, so that the few arguments that are proved have most of it."""
    among = {n: scalar_choices(rule, n) for n in rule.scalars}
    chosen = {n: c[(turn * (place + 1) + place) % len(c)] for place, (n, c) in enumerate(among.items())}
    fits = holds(rule, {n: spec_of(t) for n, t in tensors.items()}, chosen)
    return chosen if fits else scalars


def _each_dimension(rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> list[dict[str, Any]]:
    """The scalars with each dimension that those of them which name one may be; as they are where none does."""
    specs = {n: spec_of(t) for n, t in tensors.items()}
    rank = max((t.ndim for t in tensors.values()), default=0)
    found = [scalars]
    for name in rule.scalars:
        if not any("ndim" in text and re.search(rf"\b{re.escape(name)}\b", text) for text in rule.where):
            continue
        among = rule.scalars[name]
        every = ({**scalars, name: d} for d in range(-rank, rank) if among is None or d in among)
        found += [other for other in every if other not in found and holds(rule, specs, other)]
    return found


def _runnable(instance: Instance, rng: random.Random) -> Instance | None:
    """The arguments where the pattern runs on them; else with small integers, then with other free scalars too.

    An index or a divisor may be no good for the other arguments, and so may a dimension among the scalars.
    """
    rule = instance.rule
    if _runs(instance):
        return instance
    free = [n for n, among in rule.scalars.items() if among is None]
    if not (free or any(is_integer_dtype(t.dtype) for t in instance.tensors.values())):
        return None
    small = instance.with_values(over_memory(instance.tensors, lambda t: _with_small_integers(t, rule, rng)))
    if _runs(small):
        return small
    specs = {n: spec_of(t) for n, t in small.tensors.items()}
    every = [scalar_choices(rule, n) for n in free]
    combined = list(itertools.islice(itertools.product(*(rng.sample(c, len(c)) for c in every)), _OTHER_NUMBERS))
    for numbers in combined if free else ():
        scalars = {**instance.scalars, **dict(zip(free, numbers, strict=True))}
        if holds(rule, specs, scalars) and _runs(other := Instance(rule, small.tensors, scalars)):
            return other
    return None


def _runs(instance: Instance) -> bool:
    """Whether the pattern runs on these arguments."""
    try:
        instance.before(instance.copies())
    except Exception:
        return False
    return True


def _with_small_integers(t: torch.Tensor, rule: Rule, rng: random.Random) -> torch.Tensor:
    """Those that every index may be, or every divisor."""
    if not is_integer_dtype(t.dtype):
        return t.clone()
    return sample_values(t.shape, t.dtype, rng, (0, 1) if rule.mixed else (1, 2))


def _drawn_again(
    rule: Rule,
    draw: Callable[..., tuple[dict[str, torch.Tensor], dict[str, Any]] | None],
    linked: Sequence[bool],
    rng: random.Random,
    how: str,
) -> Instance | None:
    """Arguments on which the pattern runs: of other dtypes, then of sizes that depend on each other (``linked``).

    A mask may have to be of bool, and a bias as long as a row; None where no such are found.
    """
    for together in linked:
        for _ in range(_AGAIN):
            sample = draw(linked=together)
            if sample is not None and _runs(instance := _laid_out(rule, *sample, rng, how)):
                return instance
    return None


def _each_alone(rule: Rule) -> list[int]:
    """Sizes that each named size has while others are small."""
    alone = [0, 1, *told_sizes(rule), *ALONE]
    if decides(rule) or asks_for_text(rule):
        alone += [n for n in range(2, EACH_SIZE + 1) if n not in alone]
    if computes_sizes(rule):
        alone += [n for n in computed_sizes() if n not in alone]
    return alone


def _layouts(rule: Rule) -> tuple[str, ...]:
    """How arguments lie in memory, in turn: what the rule asks for, or may stumble over, more often."""
    promised = "stride" in rule.preserves and len(rule.args) > 1
    more = _OTHER_LAYOUTS if asks_for_layout(rule) or promised else ()
    return (*_LAYOUTS, *more, *(_SHARING if writes(rule) and len(rule.args) > 1 else ()))


def tried_for(rule: Rule, dtype: str) -> int:
    """How many arguments eager alone is to try."""
    asks = decides(rule) or asks_for_layout(rule) or asks_for_text(rule) or (writes(rule) and len(rule.args) > 1)
    if not told_sizes(rule) and not asks and not computes_sizes(rule):
        return TRIED if dtype == rule.dtypes[0] or asks_for_sizes(rule) else TRIED_AGAIN
    words = _words(rule)
    return TRIED + 3 * (len(words) + ("..." in words)) * len(_each_alone(rule))


def _laid_out(
    rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], rng: random.Random, how: str
) -> Instance:
    """The arguments as they are, with other strides and offsets, or two of them in one memory where that can be."""
    plain = Instance(rule, tensors, scalars)
    if how == "broadcast":
        return broadcasting(rule, tensors, scalars, rng) or plain
    if how in ("shared", "overlapping"):
        return sharing(rule, tensors, scalars, rng, how == "overlapping") or plain
    return plain if how == "plain" else relaid(rule, tensors, scalars, rng, how)


def _sizes(attempt: int, several: bool, rng: random.Random) -> tuple[Sequence[int], Sequence[int]]:
    """What named sizes, and those that ``...`` stands for, are drawn from."""
    if attempt < len(POOLS):
        return POOLS[attempt], POOLS[attempt]
    turn, number = divmod(attempt - len(POOLS), len(LARGE_POOLS))
    pool = LARGE_POOLS[number]
    if turn % 2:
        pool = POOLS[number % len(POOLS)] if number % 2 else (rng.randint(13, 300), rng.randint(13, 3000))
    if max(pool) <= LARGE:
        return pool, pool
    with_small = (*pool, *_SMALL) if several and (turn + number) % 2 else pool
    return (with_small, _SMALL) if number % 3 else (_SMALL, pool)
