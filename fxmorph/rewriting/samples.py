"""Arguments that a rule holds for, drawn at random: shapes, dtypes, values, layouts, memory that they share."""

from __future__ import annotations

import functools
import math
import random
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from fxmorph.programs.inputs import flat_storage, spec_of
from fxmorph.rewriting.instances import Instance, holds, sizes_of
from fxmorph.rules import Rule
from fxmorph.torchapi.dispatch import DispatchMode, tensors_of

#: Sizes that samples are made of unless told otherwise.
SIZES = (2, 3, 4, 6, 8, 16)
LEADING = (1, 2, 3, 4, 6, 8)
#: How many dimensions ``...`` stands for, as often as listed.
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
#: Of sizes above this, only one is among those that ``...`` stands for.
LARGE = 12
#: Samples are no larger, all tensors together.
MOST_ELEMENTS = 100_000
#: How an argument may be laid out.
WAYS = ("permuted", "gaps", "rows", "expanded", "as it is")
#: Elements that a tensor may have which a side makes of them.
_MOST_MADE = 2_000_000
#: A memory begins so far before its tensor at most: further than the tensor is long where that is less.
_FAR = 64
#: Of more elements some are repeated.
_MANY = 2048
#: The first one of the dimensions that ``...`` stands for.
FIRST = "first of ..."
#: What a scalar that the graph gives may be, unless conditions name other numbers.
NUMBERS = (0.5, 1, 0, 2, -1, 3, -2, 2.0, 4)
#: A number of a condition, up to what size it is tried, and what parts of it are inside.
_TOLD, _MODERATE, _INSIDE = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[+-]?\d+)?"), 64, (1.0, 63 / 64, 0.875)


def sample_arguments(
    rule: Rule,
    rng: random.Random,
    tries: int = 1500,
    dtypes: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    leading: Sequence[int] = LEADING,
    integers: Sequence[int] = (),
    fixed: Mapping[str, int] = MappingProxyType({}),
    linked: bool = False,
    exactly: Sequence[int] | None = None,
    beside: Sequence[str] = (),
) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """Random small contiguous arguments that a rule holds for, or None when none were found.

    ``dtypes`` are the rule's own unless given, one of them is always there; of a mixed rule other arguments have any
    of its own too, or of ``beside``.  Named sizes come from ``sizes``, those that ``...`` stands for from ``leading``,
    integers that are arguments of a mixed rule from ``integers``: 0 and 1 unless given.
    ``fixed`` are sizes by name, of ``...`` that of its last dimension, of ``FIRST`` that of the first.
    ``linked``: the dimensions of ``...`` are named ones, as where a bias is broadcast to a product.
    ``exactly``: the dimensions of ``...``.
    """
    dtypes = tuple(dtypes) or rule.dtypes
    others = [*dtypes, *dtypes, *(beside or (*rule.dtypes, "bool", "int64"))]
    words = sorted({w for text in rule.args.values() for w in sizes_of(text) if not w.isdigit() and w != "..."})
    for attempt in range(tries):
        dtype = getattr(torch, dtypes[attempt % len(dtypes)])
        chosen: dict[str, int] = dict(fixed)
        lead = [rng.choice(leading) for _ in range(rng.choice(RANKS))] if exactly is None else list(exactly)
        # Of several large sizes too many elements would come.
        lead = [n if n <= LARGE or (n == max(lead) and i == lead.index(n)) else n % 3 + 1 for i, n in enumerate(lead)]
        lead = [*([fixed[FIRST]] if FIRST in fixed else ()), *lead, *([fixed["..."]] if "..." in fixed else ())]
        if linked:
            named = rng.sample(words, rng.randint(1, min(3, len(words))))
            chosen |= {w: fixed[place] for w, place in ((named[-1], "..."), (named[0], FIRST)) if place in fixed}
            lead = [chosen.setdefault(w, rng.choice(sizes)) for w in named]
        shapes: dict[str, list[int]] = {}
        for name, text in rule.args.items():
            shape = shapes[name] = []
            for word in sizes_of(text):
                if word == "...":
                    shape += lead
                elif word.isdigit():
                    shape.append(int(word))
                else:
                    shape.append(chosen.setdefault(word, rng.choice(sizes)))
        if sum(map(math.prod, shapes.values())) > MOST_ELEMENTS:
            continue
        own = {n: getattr(torch, rng.choice(others)) if rule.mixed else dtype for n in shapes}
        if dtype not in own.values():
            continue
        scalars = {n: rng.choice(numbers_for(rule, n)) for n in rule.scalars}
        specs = {n: spec_of(torch.empty(shape, dtype=own[n])) for n, shape in shapes.items()}
        if holds(rule, specs, scalars):
            numbers = integers or ((0, 1) if rule.mixed else (1, 2))
            return {n: sample_values(shape, own[n], rng, numbers) for n, shape in shapes.items()}, scalars
    return None


def numbers_for(rule: Rule, name: str) -> tuple[Any, ...]:
    """What the scalar ``name`` is drawn from: bounds that conditions set it are met, and values just inside of them."""
    among = rule.scalars[name]
    return tuple(among) if among is not None else (*NUMBERS, *_told(rule.where, name))


@functools.lru_cache(maxsize=4096)
def _told(where: tuple[str, ...], name: str) -> tuple[float, ...]:
    """Moderate numbers of the conditions that name a scalar, and values just inside, where nothing else has them."""
    said = (text for text in where if re.search(rf"\b{re.escape(name)}\b", text))
    bounds = sorted({float(n) for text in said for n in _TOLD.findall(text)})
    near = dict.fromkeys(f for n in bounds if abs(n) <= _MODERATE for f in (n * part for part in _INSIDE))
    return tuple(f for f in near if not any(f == n and isinstance(n, float) for n in NUMBERS))


def relaid(
    rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], rng: random.Random, way: str = ""
) -> Instance:
    """The same arguments with other strides (one of ``WAYS``) or another offset, where the rule holds for them.

    One of several stays as it is now and then: what they are together may depend on how their layouts differ.
    """
    for _ in range(4):
        same = rng.choice(list(tensors)) if len(tensors) > 1 and rng.random() < 0.4 else ""
        ways = {n: "as it is" if n == same else way or rng.choice(WAYS) for n in tensors}
        made = {n: _further_in(_with_other_strides(t, ways[n], rng), rng) for n, t in tensors.items()}
        if holds(rule, {n: spec_of(t) for n, t in made.items()}, scalars):
            return Instance(rule, made, scalars)
    return Instance(rule, tensors, scalars)


def _with_other_strides(t: torch.Tensor, way: str, rng: random.Random) -> torch.Tensor:
    if t.ndim == 0 or t.numel() == 0 or way == "as it is":
        return t
    if way == "permuted":
        order = rng.sample(range(t.ndim), t.ndim)
        if order == sorted(order):
            order.reverse()
        back = [order.index(d) for d in range(t.ndim)]
        return t.permute(order).contiguous().permute(back)
    if way == "gaps":
        wide = torch.stack([t, t], -1).reshape(*t.shape[:-1], 2 * t.shape[-1])
        return wide[..., ::2]
    if way == "rows":  # dense ones, and something between them
        return torch.cat([t, t.flip(-1)[..., : rng.randint(1, 3)]], -1)[..., : t.shape[-1]]
    if way == "loose":
        # What lies between the elements of a dimension of size 1 is nobody's, and such a tensor may be contiguous.
        strides = [s if n > 1 else rng.choice((0, 2, 5, 70)) for n, s in zip(t.shape, t.stride(), strict=True)]
        far = sum((n - 1) * max(strides) for n in t.shape)  # a walk by a wrong stride ends in this memory
        memory = torch.cat([flat_storage(t), sample_values([min(far, _MANY)], t.dtype, rng)])
        return memory.as_strided(t.shape, strides, t.storage_offset())
    d = rng.randrange(t.ndim)
    return t.narrow(d, 0, 1).expand(t.shape)


def _further_in(t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """The same tensor, in half of all cases behind a few elements of other values in its memory."""
    by = rng.choice((0, 0, 0, 1, 2, 3, min(t.numel(), _FAR)))
    if not by:
        return t
    memory = flat_storage(t)
    before = sample_values([by], t.dtype, rng, (1, 2))
    return torch.cat([before, memory]).as_strided(t.shape, t.stride(), t.storage_offset() + by)


def broadcasting(
    rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], rng: random.Random
) -> Instance | None:
    """The same arguments, one of them of size 1, or without a dimension, where another is larger.

    None where the rule names the same sizes for all, or does not hold for such.
    """
    free = [n for n, text in rule.args.items() if "..." in sizes_of(text) and n in tensors and tensors[n].ndim]
    for _ in range(4 if len(free) > 1 else 0):
        name = rng.choice(free)
        t = tensors[name]
        dims = rng.sample(range(t.ndim), rng.randint(1, t.ndim))
        small = t[tuple(slice(0, 1) if d in dims else slice(None) for d in range(t.ndim))].contiguous()
        small = small[0] if 0 in dims and rng.random() < 0.3 and small.numel() else small
        made = {**tensors, name: small}
        if holds(rule, {n: spec_of(t) for n, t in made.items()}, scalars):
            return Instance(rule, made, scalars)
    return None


def sharing(
    rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], rng: random.Random, overlapping: bool = False
) -> Instance | None:
    """The same arguments, two of them in one memory: the same tensor, its transpose, one in the other or beside it.

    ``overlapping``: one begins a little after the other, and neither lies in the other.

    None where no two have one dtype, or the rule does not hold for such.
    """
    pairs = [(a, b) for a in tensors for b in tensors if a < b and tensors[a].dtype == tensors[b].dtype]
    pairs = [(a, b) for a, b in pairs if tensors[a].numel() and tensors[b].numel()]
    for _ in range(4 if pairs else 0):
        # Of two alike either comes first: a loop may read what it has written in one direction alone.
        larger, other = sorted(rng.choice(pairs), key=lambda n: (-tensors[n].numel(), rng.random()))
        made = {**tensors, **_in_one_memory(larger, other, tensors, rng, overlapping)}
        if holds(rule, {n: spec_of(t) for n, t in made.items()}, scalars):
            return Instance(rule, made, scalars)
    return None


def _in_one_memory(
    larger: str, other: str, tensors: dict[str, torch.Tensor], rng: random.Random, overlapping: bool
) -> dict[str, torch.Tensor]:
    """Both tensors, which are contiguous, over the memory of the larger one or one that is a little larger still."""
    t, like = tensors[larger], tensors[other]
    ways = [t.mT] if t.ndim >= 2 and t.mT.shape == like.shape else []
    ways += [t, t.view(t.shape)] if t.shape == like.shape else []
    ways.append(t.as_strided(like.shape, _dense(like.shape), rng.randint(0, t.numel() - like.numel())))
    if not overlapping and rng.random() < 0.5:
        return {other: rng.choice(ways)}
    by = min(rng.choice((1, 2, 3, *t.shape[-1:])), t.numel())
    memory = torch.cat([t.flatten(), t.flatten()[:by]])
    begin = t.numel() + by - like.numel()
    return {
        larger: memory.as_strided(t.shape, _dense(t.shape), 0),
        other: memory.as_strided(like.shape, _dense(like.shape), rng.randint(max(begin - 3, 0), begin)),
    }


def _dense(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def sample_values(
    shape: Sequence[int], dtype: torch.dtype, rng: random.Random, integers: Sequence[int] = (0, 1)
) -> torch.Tensor:
    """Values of moderate size; integers are some of these, as far as the dtype has them: indices, or divisors."""
    n = math.prod(shape)
    if n > _MANY:  # as many, and the rest again
        few = sample_values([_MANY - 1], dtype, rng, integers)
        return few.repeat(-(-n // len(few)))[:n].reshape(shape).contiguous()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.tensor([rng.uniform(-2, 2) for _ in range(n)], dtype=torch.float64).reshape(shape).to(dtype)
    if dtype == torch.bool:
        integers = (0, 1)
    else:
        limits = torch.iinfo(dtype)
        integers = [i for i in integers if limits.min <= i <= limits.max] or [1]
    return torch.tensor([rng.choice(integers) for _ in range(n)], dtype=torch.int64).reshape(shape).to(dtype)


def too_large(instance: Instance) -> bool:
    """Whether a side makes tensors that are too large to be tried, as far as shapes alone tell."""
    # A product over a dimension of size 0 is as large as one over a dimension of size 1.
    if sum(math.prod(max(n, 1) for n in t.shape) for t in instance.tensors.values()) < _MANY:
        return False
    for side in (instance.before, instance.after):
        try:
            with _Counting():
                side({n: t.to("meta") for n, t in instance.tensors.items()})
        except _TooLarge:
            return True
        except Exception:  # values are asked for, or the side does not run: who runs it says so
            continue
    return False


class _TooLarge(Exception):
    """An operator gives a tensor of more than ``_MOST_MADE`` elements."""


class _Counting(DispatchMode):
    """Raises :class:`_TooLarge`."""

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        if any(t.numel() > _MOST_MADE for t in tensors_of(out)):
            raise _TooLarge
        return out
