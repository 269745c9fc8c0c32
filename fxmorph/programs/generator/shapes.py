"""Shapes as they are drawn: ranks 0 to 6, sizes 0 and 1, odd ones and those around the widths of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fxmorph.programs.generator.dice import Dice
from fxmorph.programs.generator.spans import NoFit

Shape = tuple[int, ...]

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65)
WEIGHTS = (9, 8, 10, 7, 8, 3, 8, 7, 3, 3, 4, 4, 2, 1, 3, 2, 2)
#: Elements of one tensor.
MOST = 4096
RANKS, RANK_WEIGHTS = (0, 1, 2, 3, 4, 5, 6), (4, 16, 32, 25, 14, 5, 4)


def draw_shape(dice: Dice, rank: int | None = None, least: int = 1, empty: float = 0.03) -> Shape:
    """A shape; its sizes are at least ``least`` but for a share ``empty`` of shapes that have a size 0."""
    if rank is None:
        rank = dice.weighted(RANKS, RANK_WEIGHTS)
    shape: list[int] = []
    for axis in range(rank):
        room = MOST // max(prod(shape) * max(least, 2) ** (rank - axis - 1), 1)
        fitting = [(s, w) for s, w in zip(SIZES, WEIGHTS, strict=True) if least <= s <= max(room, least)]
        shape.append(dice.weighted([s for s, _ in fitting], [w for _, w in fitting]) if fitting else least)
    shape = dice.shuffled(shape)
    if rank and dice.chance(empty):
        shape[dice.below(rank)] = 0
    return tuple(shape)


def broadcast(*shapes: Shape) -> Shape:
    """The common shape; raises :class:`NoFit` where there is none."""
    out: list[int] = []
    for i in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {s[-i] for s in shapes if len(s) >= i} - {1}
        if len(sizes) > 1:
            raise NoFit(f"{shapes} do not broadcast")
        out.append(sizes.pop() if sizes else 1)
    return tuple(reversed(out))


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    return len(shape) <= len(target) and all(
        s in (1, t) for s, t in zip(reversed(shape), reversed(target), strict=False)
    )


def partner(dice: Dice, shape: Shape) -> Shape:
    """A shape that broadcasts with ``shape``, on either side."""
    roll = dice.below(10)
    if roll < 5:
        return shape
    if roll == 5:
        return ()
    if roll == 6 and len(shape) < 5 and prod(shape) <= MOST // 4:
        return (dice.one_of((1, 2, 3)), *shape)
    ones = [1 if dice.chance(0.4) else s for s in shape]
    return tuple(ones[dice.below(len(ones) + 1) :] if dice.chance(0.4) else ones)


def rearranged(dice: Dice, n: int, rank: int | None = None) -> Shape:
    """A shape of ``n`` elements."""
    wanted = dice.between(1, 4) if rank is None else rank
    shape = [n]
    while len(shape) < wanted:
        at = dice.below(len(shape))
        size = shape[at]
        divisors = [d for d in range(1, min(size, 64) + 1) if size % d == 0] or [1]
        d = dice.one_of(divisors)
        shape[at : at + 1] = [d, size // d] if size else [0, d]
    return tuple(shape)


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def reduced(shape: Shape, dims: Sequence[int], keep: bool) -> Shape:
    """What is left of a shape when ``dims`` are reduced."""
    gone = {d % len(shape) for d in dims} if shape else set()
    return tuple(1 if i in gone else s for i, s in enumerate(shape) if keep or i not in gone)


def text_of(shape: Sequence[int]) -> str:
    """The shape as a tuple of Python."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def sizes(shape: Sequence[int]) -> str:
    """The shape as the arguments of a factory."""
    return ", ".join(map(str, shape)) or "()"
