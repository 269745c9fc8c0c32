"""Lanes: reference computations beside the native program, and their memory.

Shadows belong to storages, not tensors: element i of a native storage has element i of the lane's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fxmorph.judge.reference.precision import widened
from fxmorph.judge.reference.signs import SPREAD, Signs, sign
from fxmorph.programs.inputs import flat_storage
from fxmorph.torchapi.storages import storage_key

#: Rows of either kind whose lanes have an :attr:`Lane.anew`, and of those the ones whose backward pass reads it too.
ANEW, BACKWARD_TOO = (2, 3), (3,)
#: Columns of a Hadamard matrix by the number of a cast: no two agree, and the first three are independent.
_CASTS = (1, 2, 4, 7, 3, 5, 6)


def _native_memory(t: torch.Tensor) -> torch.Tensor:
    """A copy of the memory of ``t``, widened."""
    return flat_storage(t.detach()).to(widened(t.dtype)).clone()


@dataclass
class Lane:
    """One reference computation; ``bases`` maps (storage, dtype) to its wide 1-D memory.

    ``alive`` holds the native storages that any lane has memory for, or an address would come to mean another tensor.

    ``anew``, of some: what sums and other operators read that keep their results in memory.  Compiled code computes
    what is pointwise at each of its uses, with other instructions at each, or for the backward pass.  So such values
    are computed twice here: for those that read them, and for what the lane itself has of them.
    """

    name: str
    alive: dict[int, Any]
    casts_round: bool = False
    #: One for all lanes: they differ by their row of SIGNS.
    perturb: Signs | None = None
    row: int = 0
    roundings: int = 0
    tie: int = 0
    #: Of equal elements, of which any may be taken, one that lies so many behind the first.
    turned: int = 0
    bases: dict[tuple[int, torch.dtype], torch.Tensor] = field(default_factory=dict)
    broken: str = ""
    anew: Anew | None = None

    def knows(self, t: torch.Tensor) -> bool:
        return (storage_key(t), t.dtype) in self.bases

    def memory(self, t: torch.Tensor) -> torch.Tensor:
        """The lane's memory under ``t``; the native one, widened, where it has none."""
        base = self.bases.get((storage_key(t), t.dtype))
        if base is None or base.numel() < t.untyped_storage().nbytes() // t.element_size():
            base = self.start_again(t)
        return base

    def shadow(self, t: torch.Tensor) -> torch.Tensor:
        """The lane's values of ``t``, in its own memory."""
        s = self.memory(t).as_strided(t.shape, t.stride(), t.storage_offset())
        s = s.conj() if t.is_conj() else s
        return torch._neg_view(s) if t.is_neg() else s

    def start_again(self, t: torch.Tensor) -> torch.Tensor:
        """Take the native memory of ``t`` for the lane's."""
        if self.anew is not None:
            self.anew.bases.pop((storage_key(t), t.dtype), None)
        self.alive[storage_key(t)] = t.untyped_storage()
        base = self.bases[(storage_key(t), t.dtype)] = _native_memory(t)
        return base

    def adopt(self, native: torch.Tensor, shadow: torch.Tensor) -> None:
        """Make ``shadow`` the lane's values of the fresh tensor ``native``."""
        self.alive[storage_key(native)] = native.untyped_storage()
        n = native.untyped_storage().nbytes() // max(native.element_size(), 1)
        base = torch.zeros(n, dtype=widened(native.dtype), device=native.device)
        view = base.as_strided(native.shape, native.stride(), native.storage_offset())
        view.copy_(shadow.resolve_conj() if shadow.is_complex() and not native.is_conj() else shadow)
        self.bases[(storage_key(native), native.dtype)] = base

    def forget_others(self, t: torch.Tensor) -> list[tuple[int, torch.dtype]]:
        """Drop what it has of the memory under ``t`` by other dtypes; of which places that was."""
        storage = storage_key(t)
        places = [place for place in self.bases if place[0] == storage and place[1] != t.dtype]
        for place in places:
            del self.bases[place]
        if self.anew is not None:
            self.anew.forget_others(t)
        return places

    def noise(self, s: torch.Tensor) -> torch.Tensor:
        """1 or -1: of all errors up to 1 those that spread most, and one operator's spread hangs on no chance."""
        assert self.perturb is not None
        self.roundings += 1
        return self.perturb.of(self.row, self.roundings - 1, s.shape, s.device)


@dataclass
class Anew(Lane):
    """What :attr:`Lane.anew` says, of the lane ``beside``; in ``bases`` it has what is not the same as the lane's.

    Its roundings are the opposite of the lane's: a difference of the two is off by twice of what one is, in half of the
    lanes, so that its root mean square is that of two errors which know nothing of each other.
    """

    beside: Lane = field(kw_only=True)

    @staticmethod
    def of(lane: Lane) -> Anew:
        return Anew(f"{lane.name}:anew", lane.alive, lane.casts_round, lane.perturb, lane.row, beside=lane)

    def memory(self, t: torch.Tensor) -> torch.Tensor:
        return super().memory(t) if self.knows(t) else self.beside.memory(t)

    def noise(self, s: torch.Tensor) -> torch.Tensor:
        return -super().noise(s)

    def draw_as_beside(self) -> None:
        """Have the noise of what the lane computes next."""
        self.roundings = self.beside.roundings

    def own(self, t: torch.Tensor) -> None:
        """Have memory of its own under ``t``, which is about to be written."""
        if not self.knows(t):
            self.bases[(storage_key(t), t.dtype)] = self.beside.memory(t).clone()

    def follow(self, t: torch.Tensor) -> None:
        """``t`` is in memory: it is the same for all that read it."""
        if self.knows(t):
            self.shadow(t).copy_(self.beside.shadow(t))


@dataclass
class Loose(Lane):
    """Some casts to a narrower type round, and others do not: of the first three each of eight lanes another choice."""

    signs: Signs = field(kw_only=True)

    def noise(self, s: torch.Tensor) -> torch.Tensor:
        number, self.roundings = self.roundings, self.roundings + 1
        if number < len(_CASTS):
            return torch.full_like(s, sign(self.row, _CASTS[number]), dtype=torch.float64)
        return self.signs.of(self.row, number, s.shape, s.device)


class Lanes:
    """The lanes of one run: the two references, the tie lanes, and the perturbed ones, whose draws ``seed`` begins.

    ``wide_alone``: none but the first.  ``draw`` counts the runs of one program: each takes others of equal elements.
    ``loose``: with lanes in which some casts round and others do not.
    """

    def __init__(self, seed: int, wide_alone: bool = False, draw: int = 0, loose: bool = False) -> None:
        alive: dict[int, Any] = {}
        self.wide, self.cast = Lane("wide", alive), Lane("cast", alive, casts_round=True)
        self._all = [self.wide]
        if not wide_alone:
            ties = (Lane("tie:+", alive, tie=1, turned=2 * draw), Lane("tie:-", alive, tie=-1, turned=2 * draw + 1))
            self._all += [self.cast, *ties]
            signs = Signs(seed)
            if loose:
                self._all += [Loose(f"loose:{k}", alive, True, row=k, signs=signs) for k in range(2 * SPREAD)]
            for k in range(SPREAD):
                for kind in ("wide", "cast"):
                    row = k + SPREAD * (kind == "cast")
                    lane = Lane(f"{kind}:{k}", alive, kind == "cast", signs, row)
                    lane.anew = Anew.of(lane) if k in ANEW else None
                    self._all.append(lane)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._all)

    def know(self, t: torch.Tensor) -> bool:
        return self.wide.knows(t)

    def known_as(self, t: torch.Tensor) -> torch.dtype | None:
        """The dtype under which they know what lies under ``t``: its own if they know it so; None where they do not."""
        if self.know(t):
            return t.dtype
        mine = storage_key(t)
        return next((dtype for storage, dtype in self.wide.bases if storage == mine), None)

    def start_again(self, t: torch.Tensor) -> None:
        """Take the native memory of ``t`` for all lanes'."""
        for lane in self._all:
            lane.start_again(t)

    def deviation(self, t: torch.Tensor) -> torch.Tensor:
        """Largest deviation of the perturbed lanes from their reference, element by element."""
        out = torch.zeros_like(_in_numbers(self.wide.shadow(t)).abs())
        for lane in self._all:
            if lane.perturb is not None:
                centre = self.cast if lane.casts_round else self.wide
                off = (_in_numbers(lane.shadow(t)) - _in_numbers(centre.shadow(t))).abs()
                out = torch.maximum(out, torch.nan_to_num(off, nan=0.0, posinf=0.0))
        return out

    def differ(self, t: torch.Tensor) -> bool:
        """Whether they do not all have the same values of ``t``."""
        wide = self.wide.shadow(t)
        return any(not torch.equal(lane.shadow(t), wide) for lane in self._all[1:])

    def settle(self, t: torch.Tensor) -> None:
        """Give the perturbed lanes what ``wide`` has of ``t``: no rounding has a part in it."""
        for lane in self._all:
            if lane.perturb is not None:
                lane.shadow(t).copy_(self.wide.shadow(t))
                if lane.anew is not None:
                    lane.anew.follow(t)


def _in_numbers(t: torch.Tensor) -> torch.Tensor:
    return t.double() if t.dtype == torch.bool else t
