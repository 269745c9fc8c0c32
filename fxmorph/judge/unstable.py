"""Whether eager itself moves as far as the difference where its inputs move by a rounding.

The envelope follows roundings inside the program to first order.  Where a program is so unstable that they reach
its result by another way, that shows here: nothing is said of what eager does not hold on to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from fxmorph.judge.numeric import envelope
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.programs.inputs import FLOATING, flat_storage
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import Observation, Slot
from fxmorph.programs.values import memories

#: Eager runs on moved inputs; and how many times what they are off by excuses.
RUNS, REACH = 16, 2.0
_BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
#: Mixes the bits of a value, as hashes of integers do.
_MIX = 0x45D9F3B


def move(made: Invocation, draw: int) -> Invocation:
    """Its floating-point inputs, parameters and buffers moved in place, about half of them to a neighbour.

    Equal values move alike, and whole numbers stay: ties and decisions on exact values are not rounding's to change.
    """
    with torch.no_grad():
        for t in memories([made.args, made.state]):
            if t.dtype in FLOATING:
                flat = flat_storage(t)
                flat.copy_(_moved(flat, draw))
    return made


def _moved(flat: torch.Tensor, draw: int) -> torch.Tensor:
    mixed = flat.contiguous().view(_BITS[flat.element_size()]).long() & 0xFFFFFFFF
    for _ in range(2):
        mixed = (((mixed >> 16) ^ mixed) + 0x9E37 * draw) * _MIX & 0xFFFFFFFF
    side = (mixed >> 8) & 3
    up, down = (torch.nextafter(flat, torch.full_like(flat, limit)) for limit in (torch.inf, -torch.inf))
    moved = torch.where(side == 0, up, torch.where(side == 1, down, flat))
    return torch.where((flat == flat.round()) | ~torch.isfinite(moved), flat, moved)


def moves_as_far(
    eager: Slot, compiled: Slot, shadows: Shadows | None, run: Callable[[int], Observation]
) -> bool:  # fmt: skip
    """Whether at each accused element rounding has a part, and one of the eager runs (by draw) is as far off."""
    mine, theirs = eager.value, compiled.value
    if shadows is None or "wide" not in shadows.lanes or mine.dtype not in FLOATING or theirs.dtype not in FLOATING:
        return False
    env = envelope(mine, theirs, shadows.lanes)
    e, c, wide = mine.double(), theirs.double(), shadows.lanes["wide"].double()
    accused = (env.outside > env.allowed) & torch.isfinite(c)
    rounded = torch.zeros_like(accused)
    least = torch.finfo(mine.dtype).smallest_normal  # every result is moved by less: a zero, too
    for name, lane in shadows.lanes.items():
        if ":" in name and not name.startswith("tie"):
            rounded |= (lane.double() - wide).abs() > least
    if not bool(accused.any()) or bool((accused & ~rounded).any()):
        return False
    off, reached = (c - e).abs(), torch.zeros_like(e)
    for other in _others(eager, run):
        reached = torch.maximum(reached, (other.double() - e).abs().nan_to_num(0.0))
        if bool((off <= REACH * reached)[accused].all()):
            return True
    return False


def loses_numbers(eager: Slot, compiled: Slot, run: Callable[[int], Observation]) -> bool:
    """Whether each element that is a number on one side alone is one in some of the eager runs (by draw), and in others
    not: quotients of what cancels, to 0 or nearly.
    """
    number = torch.isfinite(eager.value)
    accused, turned = number != torch.isfinite(compiled.value), torch.zeros_like(number)
    if not bool(accused.any()):
        return False
    for other in _others(eager, run):
        turned |= torch.isfinite(other) != number
        if bool(turned[accused].all()):
            return True
    return False


def _others(eager: Slot, run: Callable[[int], Observation]) -> Iterator[torch.Tensor]:
    """What a slot holds in runs on moved inputs, as long as it holds as much."""
    for draw in range(1, RUNS + 1):
        other = run(draw).slots().get(eager.name)
        if other is None or not isinstance(other.value, torch.Tensor) or other.value.shape != eager.value.shape:
            return
        yield other.value
