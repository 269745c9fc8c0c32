"""Kernels of Inductor run by us on torch tensors.

Parts of a fused kernel run one after the other, each over its whole range.  That fusion is legal is seen without
running it: no iteration may touch what another one writes (``kernel_order.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from fxmorph.core.kernel_faults import KernelFault, current_faults
from fxmorph.model import Kind
from fxmorph.torchapi import noted_operations
from fxmorph.torchapi.addresses import grid, number_of
from fxmorph.torchapi.kernel_memory import Memory
from fxmorph.torchapi.kernel_operations import NotingOperations, Operations
from fxmorph.torchapi.kernel_order import Lanes
from fxmorph.torchapi.kernel_precision import Precision
from fxmorph.torchapi.kernels_in_fp64 import shadow_of
from fxmorph.torchapi.printed_indices import PrintedIndices

#: Loops of more iterations are run whole, whatever is asked.
_ONE_BY_ONE = 4096
#: Origins that a fault names.
_ORIGINS = 4


class KernelAccused(RuntimeError):
    """A kernel does what it may not, and nobody notes it."""


@dataclass(frozen=True)
class Part:
    """A loop body and its ranges of iteration and of reduction.

    ``shared``: so many of the outermost loops are those of the kernel, the others the body's own; None: all are the
    kernel's, or run within one of its iterations.
    """

    body: Any
    points: Sequence[Any]
    rounds: Sequence[Any]
    reads: frozenset[str]
    writes: frozenset[str]
    shared: int | None = None


@dataclass(frozen=True)
class Local:
    """A buffer that lives in a kernel alone."""

    size: Sequence[Any]
    stride: Sequence[Any]
    dtype: torch.dtype


@dataclass
class Kernel:
    """Loop bodies in order, and the buffers that they are to write.

    ``made`` are buffers that the kernel makes, ``in_place`` those of them that take over the memory of one that it
    reads, ``own`` buffers in memory of Inductor's making, ``nodes`` the FX nodes that it comes from, ``symbols`` the
    sizes that its loops and addresses hang on, ``raced`` buffers that it reads and that another kernel writes which is
    launched as one with it.  ``printed``: see :class:`Operations`.
    """

    name: str
    graph: int
    parts: Sequence[Part]
    nodes: Sequence[str]
    symbols: Mapping[str, Any]
    precision: Precision
    made: frozenset[str] = frozenset()
    in_place: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    local: Mapping[str, Local] = field(default_factory=dict)
    one_by_one: bool = False
    raced: frozenset[str] = frozenset()
    printed: PrintedIndices | None = None

    def run(self, sizes: Mapping[str, int], buffers: Mapping[str, Any]) -> None:
        """Run all of it on these buffers."""
        for name in sorted(self.raced):
            self._accuse(Kind.ORDER, name, f"reads {name}, which another part of the same combined kernel writes")
        known = {self.symbols[name]: value for name, value in sizes.items()}
        tensors = {name: t for name, t in buffers.items() if isinstance(t, torch.Tensor)}
        for name, local in self.local.items():
            size, stride = ([number_of(n, known) for n in part] for part in (local.size, local.stride))
            tensors[name] = torch.empty_strided(size, stride, dtype=local.dtype)
        written, read = (
            frozenset().union(*(getattr(p, what) for p in self.parts)) for what in ("writes", "reads")
        )  # fmt: skip
        beside = shadow_of()
        wide = None if beside is None else {name: beside(t) for name, t in tensors.items()}
        memory = Memory(self.graph, tensors, self.own | set(self.local), written, read, self._accuse)
        memory.begin(self.made, self.in_place)
        spaces = [_Space.of(part, known) for part in self.parts]
        outer = max((s.points for s in spaces if s.rounds > 1), default=max((s.points for s in spaces), default=0))
        inner = max((s.rounds for s in spaces), default=1)

        def run(memory: Memory, precision: Precision) -> None:
            for part, space in zip(self.parts, spaces, strict=True):
                if space.points:
                    self._run(part, space, known, memory, precision, outer, inner)

        run(memory, self.precision)
        memory.judge_order(lambda: run(memory, self.precision))
        if wide is not None:  # what a kernel may not do was seen
            run(Memory(self.graph, wide, (), (), (), lambda *_: None), Precision(wide=True))
        nothing = (p.writes for p, space in zip(self.parts, spaces, strict=True) if not space.points)
        memory.end(self.made, frozenset().union(*nothing))

    def _run(
        self, part: Part, space: _Space, known: dict[Any, int], memory: Memory, precision: Precision, outer: int,
        inner: int,
    ) -> None:  # fmt: skip
        from torch._inductor.virtualized import V

        lanes = space.lanes(part.shared, outer, inner) if memory.follows else None
        if lanes is None:
            memory.forget_touches()
        for here, rows in space.steps(self.one_by_one):
            memory.lanes = None if lanes is None else _of_rows(lanes, rows)
            count = rows.stop - rows.start
            ops = Operations(memory, {**known, **here}, (count, space.rounds), precision, self.printed)
            noted = noted_operations.current()
            with V.set_ops_handler(ops if noted is None else NotingOperations(ops, noted)):
                part.body(*space.loops)
        if lanes is None:
            memory.forget_touches()

    def _accuse(self, kind: Kind, buffer: str, what: str) -> None:
        """Note it; raises :class:`KernelAccused` of an address that is none where nobody does."""
        origin = ", ".join(self.nodes[:_ORIGINS]) + (", …" if len(self.nodes) > _ORIGINS else "")
        faults = current_faults()
        if faults is not None:
            faults.add(KernelFault(kind, self.name, buffer, f"kernel {self.name} (of {origin}) {what}"))
        elif kind is Kind.OUT_OF_BOUNDS:
            raise KernelAccused(f"kernel {self.name} (of {origin}) {what}")


@dataclass(frozen=True)
class _Space:
    """The iterations of a part: how many, and the number of each loop in each of them."""

    points: int
    rounds: int
    sizes: tuple[int, ...]
    loops: tuple[list[sympy.Symbol], list[sympy.Symbol]]
    outer: list[torch.Tensor]
    inner: list[torch.Tensor]

    @staticmethod
    def of(part: Part, known: Mapping[Any, int]) -> _Space:
        points, rounds = ([number_of(n, known) for n in sizes] for sizes in (part.points, part.rounds))
        named = [[sympy.Symbol(f"{n}{i}", integer=True, nonnegative=True) for i in range(len(sizes))]
                 for n, sizes in (("outer", points), ("inner", rounds))]  # fmt: skip
        return _Space(
            math.prod(points), math.prod(rounds), tuple(points), (named[0], named[1]),
            grid(points, (-1, 1)), grid(rounds, (1, -1)),
        )  # fmt: skip

    def steps(self, one_by_one: bool) -> Iterator[tuple[dict[Any, torch.Tensor], slice]]:
        along = dict(zip(self.loops[1], self.inner, strict=True))
        step = 1 if one_by_one and self.points <= _ONE_BY_ONE else self.points
        for at in range(0, self.points, step):
            rows = slice(at, at + step)
            here = {loop: numbers[rows] for loop, numbers in zip(self.loops[0], self.outer, strict=True)}
            yield {**here, **along}, rows

    def lanes(self, shared: int | None, outer: int, inner: int) -> Lanes | None:
        """The kernel's iterations in which this part's lie; None where they have nothing to do with each other."""
        number = torch.arange(self.points).view(-1, 1)
        if shared is not None:
            within = math.prod(self.sizes[shared:])
            return Lanes(number // within, None)
        if self.points == outer and self.rounds in (1, inner):
            whole = number * inner + torch.arange(inner).view(1, -1)
            return Lanes(number, whole if self.rounds == inner else None)
        if self.points == outer * inner and self.rounds == 1:
            return Lanes(number // inner, number)
        return None


def _of_rows(lanes: Lanes, rows: slice) -> Lanes:
    return Lanes(lanes.outer[rows], None if lanes.inner is None else lanes.inner[rows])
