"""Passes over the inputs: sizes, ranks, dtypes, layouts, gradients, values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from fxmorph.programs.graph import calls, copy_graph
from fxmorph.programs.inputs import InputSet, NotApplicable, flat_storage
from fxmorph.programs.sizes import candidates as sizes_of
from fxmorph.programs.sizes import resize
from fxmorph.torchapi.storages import storage_key
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.driver import Reduction
from fxmorph.triage.reduce.order import DTYPES, plain

#: Sizes that others are made smaller to: around what vectors and tiles of the backends hold.
SMALL = (2, 3, 4, 5, 8, 9, 16, 17, 32, 33)
Change = Callable[[torch.Tensor], torch.Tensor]


def smaller_sizes(search: Reduction) -> None:
    """Each size made smaller wherever inputs and constants of the program have it.

    Sizes of 1 stay and no other becomes 1, odd sizes stay odd where that will do: broadcasting and the
    tails of vectors are causes of their own.
    """
    for old in sizes_of(search.best.values):
        odd = [n for n in SMALL if n % 2 == old % 2]
        for new in (*odd, *(n for n in SMALL if n not in odd), old // 2):
            if 1 < new < old and any(search.attempt(made) for made in _resized(search.best, old, new)):
                break


def lower_ranks(search: Reduction) -> None:
    """One dimension less: of all inputs of the highest rank together, then of each."""
    highest = max((v.ndim for v in search.best.values if isinstance(v, torch.Tensor)), default=0)
    for d in range(highest):
        for made in _first_of(search.best, d, lambda i, t: t.ndim == highest):
            search.attempt(made)
    for i in range(len(search.best.holders)):
        for d in range(highest):
            for made in _first_of(search.best, d, lambda k, t: k == i):  # noqa: B023
                search.attempt(made)


def plainer_dtypes(search: Reduction) -> None:
    """Every dtype of inputs and constants made float32 or int64, throughout or in one input."""
    for old in dict.fromkeys(v.dtype for v in search.best.values if isinstance(v, torch.Tensor)):
        for new in DTYPES[: DTYPES.index(old) if old in DTYPES else len(DTYPES)]:
            if new.is_floating_point == old.is_floating_point and search.attempt(_cast(search.best, old, new)):
                break
    for i, value in enumerate(search.best.values):
        if isinstance(value, torch.Tensor) and value.dtype not in DTYPES[:2]:
            new = torch.float32 if value.is_floating_point() else torch.int64
            search.attempt(_changing(search.best, lambda k, t: t.to(new) if k == i else t))  # noqa: B023


def plainer_layouts(search: Reduction) -> None:
    """Inputs contiguous, each with memory of its own; then one after the other."""
    if search.attempt(_changing(search.best, lambda i, t: _contiguous(t), shared=False)):
        return
    for i in range(len(search.best.holders)):
        search.attempt(_changing(search.best, lambda k, t: _contiguous(t) if k == i else t))  # noqa: B023


def no_gradients(search: Reduction) -> None:
    """Inputs that do not require grad: none, then each."""
    if search.attempt(_changing(search.best, lambda i, t: t.detach())):
        return
    for i in range(len(search.best.holders)):
        search.attempt(_changing(search.best, lambda k, t: t.detach() if k == i else t))  # noqa: B023


def plainer_values(search: Reduction) -> None:
    """All inputs at once, then each: a range, zeros, ones, rounded."""
    for change in (_zeros, _ones, _range, _rounded):
        if search.attempt(_valued(search.best, change, None)):
            break
    for i in range(len(search.best.holders)):
        for change in (_zeros, _ones, _range, _rounded):
            if search.attempt(_valued(search.best, change, i)):
                break


# -- sizes and ranks -------------------------------------------------------------


def _resized(program: Candidate, old: int, new: int) -> Iterator[Candidate]:
    """Constants that are the size change with it, then those that are a multiple of it, then none."""
    try:
        values = resize(program.inputs.rebuild(), old, new)
    except NotApplicable:
        return
    inputs = InputSet.snapshot(values)

    def same(n: int) -> int:
        return new if n == old else n

    def multiple(n: int) -> int:
        return n // old * new if n > 0 and n % old == 0 else n

    seen: set[str] = set()
    for change in (same, multiple, lambda n: n):
        made = replace(program, graph=_with_integers(program.graph, change), inputs=inputs)
        if made.text not in seen:
            seen.add(made.text)
            yield made


def _with_integers(graph: fx.Graph, change: Callable[[int], int]) -> fx.Graph:
    new = copy_graph(graph)

    def walk(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(walk(v) for v in value)
        if isinstance(value, slice):
            return slice(walk(value.start), walk(value.stop), walk(value.step))
        return change(value) if isinstance(value, int) and not isinstance(value, bool) else value

    for node in calls(new):
        node.args = tuple(walk(a) for a in node.args)
        node.kwargs = {k: walk(v) for k, v in node.kwargs.items()}
    return new


def _first_of(program: Candidate, d: int, which: Callable[[int, torch.Tensor], bool]) -> Iterator[Candidate]:
    """Only the first along dimension ``d`` of some inputs, that dimension gone.

    Later dimensions that constants name move up in the second candidate.
    """

    def first(i: int, t: torch.Tensor) -> torch.Tensor:
        if not which(i, t) or d >= t.ndim:
            return t
        grad = t.requires_grad
        return t.detach().select(d, 0).contiguous().requires_grad_(grad) if t.shape[d] else t

    made = _changing(program, first)
    if made.inputs.specs() == program.inputs.specs():
        return
    yield made
    yield replace(made, graph=_with_integers(program.graph, lambda n: n - 1 if d < n < 8 else n))


# -- dtypes, layouts, values ---------------------------------------------------------


def _changing(
    program: Candidate, change: Callable[[int, torch.Tensor], torch.Tensor], shared: bool = True
) -> Candidate:
    """``change(number, tensor)`` for each tensor among the inputs; requires_grad stays with what it gives.

    With ``shared`` tensors that are left alone share memory as before.
    """
    with torch.no_grad():
        values = [change(i, v) if isinstance(v, torch.Tensor) else v for i, v in enumerate(program.inputs.rebuild())]
        if not shared:
            values = [v.clone() if isinstance(v, torch.Tensor) and plain(v) else v for v in values]
    for new, old in zip(values, program.values, strict=True):
        if isinstance(new, torch.Tensor) and new.dtype == old.dtype and new.shape != old.shape:
            new.requires_grad_(old.requires_grad)
    return replace(program, inputs=InputSet.snapshot(values))


def _contiguous(t: torch.Tensor) -> torch.Tensor:
    made = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    return made.copy_(t.detach()).requires_grad_(t.requires_grad)


def _cast(program: Candidate, old: torch.dtype, new: torch.dtype) -> Candidate:
    graph = copy_graph(program.graph)

    def walk(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(walk, value))
        return new if value == old and isinstance(value, torch.dtype) else value

    for node in calls(graph):
        node.args = tuple(map(walk, node.args))
        node.kwargs = {k: walk(v) for k, v in node.kwargs.items()}

    def cast(i: int, t: torch.Tensor) -> torch.Tensor:
        return t.to(new).requires_grad_(t.requires_grad and new.is_floating_point) if t.dtype == old else t

    return replace(_changing(program, cast), graph=graph)


def _valued(program: Candidate, change: Change, number: int | None) -> Candidate:
    """Memory under input ``number`` (None: under all inputs) with other values."""
    values = program.inputs.rebuild()
    done: set[int] = set()
    with torch.no_grad():
        for i, t in enumerate(values):
            if isinstance(t, torch.Tensor) and number in (None, i) and storage_key(t) not in done and t.numel():
                done.add(storage_key(t))
                flat = flat_storage(t.detach())
                flat.copy_(change(flat))
    return replace(program, inputs=InputSet.snapshot(values))


def _range(flat: torch.Tensor) -> torch.Tensor:
    return torch.arange(flat.numel(), device=flat.device)


def _zeros(flat: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(flat)


def _ones(flat: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(flat)


def _rounded(flat: torch.Tensor) -> torch.Tensor:
    return flat.round() if flat.is_floating_point() else flat
