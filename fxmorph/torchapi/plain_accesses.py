"""What a loop body reads and writes, recorded by us while it runs: for the dependencies of its scheduler node."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
from torch._inductor.ops_handler import DefaultHandler

from fxmorph.torchapi.addresses import addresses, number_of
from fxmorph.torchapi.corrections import After, Correction


@dataclass(frozen=True)
class Access:
    """One load or store: ``loops`` are sizes by loop variable, the outermost first."""

    buffer: str
    index: Any
    loops: tuple[tuple[Any, Any], ...]
    mode: str | None = None


def sizes_known() -> Mapping[Any, int]:
    """Example values of the symbolic sizes of the graph that is compiled."""
    from torch._inductor.virtualized import V

    return {symbol: int(value) for symbol, value in V.graph.sizevars.backed_var_to_val.items()}


def from_memory(index: Any) -> bool:
    """Whether an index depends on values that were read from memory."""
    from torch.utils._sympy.symbol import SymT, free_symbol_is_type

    return bool(free_symbol_is_type(sympy.sympify(index), (SymT.TMP, SymT.INDIRECT)))


def same_addresses(index: Any, loops: Mapping[Any, Any], other_index: Any, other_loops: Mapping[Any, Any]) -> bool:
    """Whether the second is at the same address as the first in all iterations that the first's loops enclose.

    The second may have more loops within.  True too where there are too many iterations to say.
    """
    if from_memory(index) != from_memory(other_index):
        return False
    sizes = sizes_known()
    one, other = addresses(index, loops, sizes), addresses(other_index, other_loops, sizes)
    if one is None or other is None:
        return True
    if not len(one) or not len(other):
        return len(one) == len(other)
    return len(other) % len(one) == 0 and bool((other.view(len(one), -1) == one.view(-1, 1)).all())


def check_accesses(fn: Any, *argsizes: Any, hidden_args: Sequence[Any] = (), **_: Any) -> After:
    """Each load and store of a loop body must be among what was recorded, at its addresses."""

    def after(result: Any) -> Correction | None:
        if not hasattr(fn, "root_block"):  # a function that is being lowered, not yet a body
            return None
        reads, writes = _accesses(fn, argsizes, hidden_args)
        lost = [(a, kept) for some, kept in ((reads, result.reads), (writes, result.writes)) for a in some
                if not any(_is_of(dep, a) for dep in kept)]  # fmt: skip
        if not lost:
            return None

        def mend() -> Any:
            made = replace(result, reads=_right(result.reads, reads), writes=_right(result.writes, writes))
            return made

        first, kept = lost[0]
        said = sorted(str(dep) for dep in kept if dep.name == first.buffer)
        told = f"recorded as {', '.join(said)}" if said else "not recorded"
        return Correction(f"{first.buffer}[{first.index}] over {dict(first.loops)} is {told}", mend)

    return after


def _is_of(dep: Any, access: Access) -> bool:
    if dep.name != access.buffer or type(dep).__name__ != "MemoryDep" or dep.mode != access.mode:
        return False
    return same_addresses(dep.index, dep.ranges, access.index, dict(access.loops))


def _right(kept: Any, accesses: Sequence[Access]) -> Any:
    """Dependencies of which those of buffers with a lost access are made anew."""
    lost = {a.buffer for a in accesses if not any(_is_of(dep, a) for dep in kept)}
    deps = [dep for dep in kept if dep.name not in lost or type(dep).__name__ != "MemoryDep"]
    return type(kept)([*deps, *(_dep(a) for a in accesses if a.buffer in lost)])


def _dep(access: Access) -> Any:
    """The dependency of one access: its loops merged, as torch's are, where that does not change it."""
    from torch._inductor.dependencies import MemoryDep, _RecordLoadStoreInner

    plain = MemoryDep(
        access.buffer, access.index, tuple(v for v, _ in access.loops), tuple(n for _, n in access.loops), access.mode
    )
    merged = MemoryDep(
        access.buffer, *_RecordLoadStoreInner._normalize(sympy.sympify(access.index), dict(access.loops)), access.mode
    )
    return merged if _is_of(merged, access) else plain


def _accesses(body: Any, sizes: Sequence[Any], hidden: Sequence[Any]) -> tuple[list[Access], list[Access]]:
    """Loads and stores of a body that runs over loops of ours."""
    recorder = _run(body, sizes, hidden)
    return recorder.reads, recorder.writes


def indices_of(body: Any, sizes: Sequence[Any]) -> list[tuple[Any, dict[Any, Any]]]:
    """Index expressions of a body in the order in which it uses them, each with the loops around it."""
    recorder = _run(body, sizes, ())
    loops = dict(recorder.loops)
    return [(index, loops) for index in recorder.indices]


def _run(body: Any, sizes: Sequence[Any], hidden: Sequence[Any]) -> _Recorder:
    from torch._inductor.utils import sympy_index_symbol
    from torch._inductor.virtualized import V

    numbers, loops, args = itertools.count(), dict[Any, Any](), list[list[Any]]()
    for part in sizes:
        args.append([])
        for size in part:
            one = number_of(sympy.sympify(size), sizes_known()) == 1
            variable = sympy.Integer(0) if one else sympy_index_symbol(f"d{next(numbers)}")
            args[-1].append(variable)
            if not one:
                loops[variable] = size
    recorder = _Recorder(tuple(loops.items()))
    with V.set_ops_handler(recorder):
        body(*args, *hidden)
    return recorder


class _Value:
    """What any operation gives, one or several."""

    def __getitem__(self, _: Any) -> _Value:
        return self


class _Recorder(DefaultHandler):
    def __init__(self, loops: tuple[tuple[Any, Any], ...]) -> None:
        self.loops, self.read_from_memory = loops, itertools.count()
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.indices: list[Any] = []

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _Value()

    def masked(self, mask: Any, body: Any, other: Any) -> Any:
        return body()

    def indirect_indexing(self, x: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> Any:
        from torch.utils._sympy.symbol import SymT, make_symbol

        return make_symbol(SymT.TMP, next(self.read_from_memory))

    def index_expr(self, index: Any, dtype: Any) -> Any:
        self.indices.append(index)
        return _Value()

    def load(self, name: str, index: Any) -> Any:
        self.indices.append(index)
        self.reads.append(Access(name, index, self.loops))
        return _Value()

    def load_seed(self, name: str, offset: Any) -> Any:
        return self.load(name, sympy.sympify(offset))

    def store(self, name: str, index: Any, value: Any, mode: Any = None) -> None:
        self.indices.append(index)
        self.writes.append(Access(name, index, self.loops, mode))

    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        self.store(name, index, value)
