"""Neighbours of a graph that a pattern entry fires on: other values, and near misses.

A pattern's check is an under-approximation of what its replacement needs, and what is in the free
tensors it does not look at all.  Other *values* keep the graph and fill inputs with what checks
cannot see: masks beyond 0 and 1, fully masked rows, zeros of both signs, Inf and NaN.  *Near misses*
change one thing that the check should refuse: another user of an inner node, another dtype, a
factor, a size, a dimension, a permutation, a number for a tensor, arguments by name.  Where the entry fires all
the same, the change is worth judging first.
"""

from __future__ import annotations

import functools
import itertools
import operator
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from fxmorph.inductor.derive.derived_graph import Derived, InputSpec
from fxmorph.inductor.firing.operator_calls import name_of, overloads_of
from fxmorph.programs.graph import Unprintable, print_graph, read_graph
from fxmorph.torchapi.dispatch import OpOverload, aten_packet, schema_of

#: Operators whose result depends on whether their first argument equals, or exceeds, a number.
_COMPARISONS = frozenset(
    "aten.eq.Scalar aten.ne.Scalar aten.ge.Scalar aten.gt.Scalar aten.le.Scalar aten.lt.Scalar".split()
)
#: In the place of a tensor.
NUMBER = -1.5
_OTHER_DTYPE = {"float32": "bfloat16", "bfloat16": "float32", "float16": "float32", "uint8": "int8", "int8": "uint8"}

#: How the change of what has other values begins, and by what other sorts of changes are known.
_VALUES = "values: "
_SORTS = {
    "another user": re.compile(r"^another user of "),
    "dtype": re.compile(r"^(all inputs|input \d+) of |: (dtype|torch\.\w+) is torch\."),
    "size 1": re.compile(r"^size \d+ of (input|all) "),
    "number": re.compile(r"^input \d+ is the number"),
    "rank": re.compile(r"^input \d+ (is a column|has \d+ dimensions)"),
    "dimension": re.compile(r": \[-?\d+\] is \["),
    "order": re.compile(r": \[.*,.*\] is \["),
    "permutation": re.compile(r": permuted by "),
    "alpha or beta": re.compile(r": (alpha|beta) is "),
    "keywords": re.compile(r": .* by name$"),
}
#: Says whether the entry still changes a graph; may raise what PyTorch raises.
Fires = Callable[[Derived], bool]


def sort_of(change: str) -> str:
    """What sort of change it is, whichever node, input or number it is about; "" for values, which change no graph.

    What a check overlooks it overlooks in all of them, and in like patterns: they are one cause.
    """
    if change.startswith(_VALUES):
        return ""
    for sort, sign in _SORTS.items():
        if sign.search(change):
            return sort
    node, _, _ = change.partition(":")
    return f"constant of {re.sub(r'_[0-9]+$', '', node)}"


def neighbours(first: Derived, fires: Fires, seed: int, per_kind: int) -> list[Derived]:
    """Neighbours that are valid graphs, each with whether the entry fires on it; those it fires on first.

    ``per_kind``: at most so many near misses of each kind.
    """
    found = [*value_variants(first), *_tried(near_misses(first, seed, per_kind), fires)]
    return sorted(found, key=lambda d: not d.fires)


def permuted(square: Derived, fires: Fires, seed: int, per_kind: int) -> list[Derived]:
    """Of a graph whose sizes are alike: those with an input permuted otherwise that the entry fires on."""
    made = list(_permutations(square))
    random.Random(f"{seed} {square.entry}").shuffle(made)
    return [d for d in _tried(made, fires) if d.fires][:per_kind]


def _tried(made: Iterable[tuple[str, Derived]], fires: Fires) -> Iterator[Derived]:
    for change, near in made:
        try:
            fired = fires(near)
        except Exception:  # no graph of valid shapes and dtypes, or one that the entry's own code does not take
            continue
        yield replace(near, change=change, fires=fired, runs=None)


def value_variants(first: Derived) -> Iterator[Derived]:
    """The same graph with other values in its inputs."""
    graph = read_graph(first.text)
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    masks = [i for i, n in enumerate(placeholders) if _is_mask(n, first.inputs[i])]
    floats = [i for i, s in enumerate(first.inputs) if _is_float(s) and not s.constant and i not in masks]
    plans = [("mask-values", masks), ("masked-rows", masks), ("special", floats), ("zeros", floats)]
    for fill, where in plans:
        if where:
            inputs = tuple(replace(s, fill=fill) if i in where else s for i, s in enumerate(first.inputs))
            yield replace(first, inputs=inputs, change=f"{_VALUES}{fill}")


def _is_float(spec: InputSpec) -> bool:
    return bool(getattr(torch, spec.dtype).is_floating_point)


def _is_mask(node: fx.Node, spec: InputSpec) -> bool:
    if spec.fill == "mask" or spec.dtype == "bool":
        return True
    seen = [node]
    for user in seen:  # through views and conversions, which keep the values
        for reader in user.users:
            if str(reader.target) in _COMPARISONS:
                return True
            if str(reader.target).startswith(("aten.view", "aten.expand", "aten.unsqueeze", "prims.convert")):
                seen.append(reader)
    return False


def near_misses(first: Derived, seed: int, per_kind: int) -> Iterator[tuple[str, Derived]]:
    """(what was changed, the graph), not yet known to be valid."""
    rng = random.Random(f"{seed} {first.entry}")
    for make in (
        _extra_users, _dtypes, _sizes, _sizes_of_all, _ranks, _numbers, _constants, _other_constants, _lists,
        _lists_of_unlike_sizes, _factors, _told_dtypes, _keywords,
    ):  # fmt: skip
        made = list(make(first))
        rng.shuffle(made)
        yield from made[:per_kind]


def _with_text(first: Derived, graph: fx.Graph) -> Derived | None:
    try:
        return replace(first, text=print_graph(graph))
    except Unprintable:
        return None


def _extra_users(first: Derived) -> Iterator[tuple[str, Derived]]:
    """An inner node is a result of the graph too."""
    inner = [
        n.name for n in read_graph(first.text).nodes if n.op.startswith("call") and n.target is not operator.getitem
    ]
    for name in inner:
        graph = read_graph(first.text)
        nodes = {n.name: n for n in graph.nodes}
        output = next(n for n in graph.nodes if n.op == "output")
        given: Any = output.args[0]
        results = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if nodes[name] in results or any(u.target is operator.getitem for u in nodes[name].users):
            continue
        output.args = ((*results, nodes[name]),)
        made = _with_text(first, graph)
        if made is not None:
            yield f"another user of {name}", made


def _dtypes(first: Derived) -> Iterator[tuple[str, Derived]]:
    for i, spec in enumerate(first.inputs):
        if spec.dtype in _OTHER_DTYPE:
            other = replace(spec, dtype=_OTHER_DTYPE[spec.dtype])
            yield f"input {i} of {other.dtype}", _with_input(first, i, other)
    floats = [i for i, s in enumerate(first.inputs) if _is_float(s)]
    if floats:
        wide = tuple(replace(s, dtype="float64") if i in floats else s for i, s in enumerate(first.inputs))
        yield "all inputs of float64", replace(first, inputs=wide)


def _sizes(first: Derived) -> Iterator[tuple[str, Derived]]:
    """One size of one input is 1, so that it is broadcast."""
    for i, spec in enumerate(first.inputs):
        for d, size in enumerate(spec.shape):
            if size > 1:
                shape = (*spec.shape[:d], 1, *spec.shape[d + 1 :])
                yield f"size {d} of input {i} is 1", _with_input(first, i, replace(spec, shape=shape))


def _sizes_of_all(first: Derived) -> Iterator[tuple[str, Derived]]:
    """A size is 1 wherever it is one, in inputs and in what calls are told, so that shapes still fit."""
    told = [value for n in read_graph(first.text).nodes for value in (*n.args, *n.kwargs.values()) if _is_sizes(value)]
    for size in sorted({size for sizes in (*told, *(s.shape for s in first.inputs)) for size in sizes if size > 1}):
        made = _with_sizes(first, functools.partial(_with_one_for, size))
        if made is not None:
            inputs = (replace(spec, shape=tuple(_with_one_for(size, spec.shape))) for spec in first.inputs)
            yield f"size {size} of all is 1", replace(made, inputs=tuple(inputs))


def _with_sizes(first: Derived, change: Callable[[Sequence[int]], list[int]]) -> Derived | None:
    """The graph with other sizes in what its calls are told; its inputs stay."""
    graph = read_graph(first.text)
    for node in graph.nodes:
        node.args = tuple(change(value) if _is_sizes(value) else value for value in node.args)
        node.kwargs = {name: change(value) if _is_sizes(value) else value for name, value in node.kwargs.items()}
    return _with_text(first, graph)


def _is_sizes(value: Any) -> bool:
    """Whether it is a list of numbers, and not one of all dimensions."""
    whole = isinstance(value, (list, tuple)) and all(type(v) is int for v in value)
    return whole and sorted(value) != list(range(len(value)))


def _with_one_for(size: int, sizes: Sequence[int]) -> list[int]:
    return [1 if n == size else n for n in sizes]


def _ranks(first: Derived) -> Iterator[tuple[str, Derived]]:
    """An input of fewer dimensions than another one is a column, so that it is broadcast along the last one; one of
    as many has no first dimension, or nothing but the last.
    """
    most = max((len(spec.shape) for spec in first.inputs), default=0)
    for i, spec in enumerate(first.inputs):
        others = max((len(s.shape) for j, s in enumerate(first.inputs) if j != i), default=0)
        for fewer in sorted({1, len(spec.shape) - 1}) if len(spec.shape) == others else ():
            if 0 < fewer < len(spec.shape):
                shape = spec.shape[-fewer:]
                yield f"input {i} has {fewer} dimensions", _with_input(first, i, _contiguous(spec, shape))
        if 0 < len(spec.shape) < most:
            column = replace(spec, shape=(*spec.shape, 1), stride=(*spec.stride, 1))
            yield f"input {i} is a column", _with_input(first, i, column)


def _numbers(first: Derived) -> Iterator[tuple[str, Derived]]:
    """An input is a negative number: a matcher that is told of a tensor takes anything."""
    for i, spec in enumerate(first.inputs):
        if len(first.inputs) == 1 or not _is_float(spec):
            continue
        graph = read_graph(first.text)
        holder = [n for n in graph.nodes if n.op == "placeholder"][i]
        _replace_by_number(holder)
        graph.erase_node(holder)
        made = _with_text(first, graph)
        if made is not None:
            yield f"input {i} is the number {NUMBER}", replace(made, inputs=(*first.inputs[:i], *first.inputs[i + 1 :]))


def _replace_by_number(node: fx.Node) -> None:
    for user in [*node.users]:
        user.args = map_arg(user.args, lambda given: NUMBER if given is node else given)
        user.kwargs = map_arg(user.kwargs, lambda given: NUMBER if given is node else given)


def _with_input(first: Derived, index: int, spec: InputSpec) -> Derived:
    return replace(first, inputs=(*first.inputs[:index], spec, *first.inputs[index + 1 :]))


def _constants(first: Derived) -> Iterator[tuple[str, Derived]]:
    """A number, a dimension or a fill value of one call is another one: the likeliest to be overlooked."""
    yield from _with_others(first, lambda value, node: _others(value, node)[:1])


def _other_constants(first: Derived) -> Iterator[tuple[str, Derived]]:
    yield from _with_others(first, lambda value, node: _others(value, node)[1:])


def _lists(first: Derived) -> Iterator[tuple[str, Derived]]:
    """Sizes, dimensions, amounts or tensors of one call are the same in another order, or the first in all places."""
    yield from _with_others(first, _other_orders)


def _lists_of_unlike_sizes(first: Derived) -> Iterator[tuple[str, Derived]]:
    """The same where two neighbouring sizes that are equal are unequal everywhere: of equal ones no order shows."""
    inputs = tuple(_contiguous(spec, _unlike(spec.shape)) for spec in first.inputs)
    made = _with_sizes(first, _unlike) if inputs != first.inputs else None
    if made is not None:
        unlike = replace(made, inputs=inputs)
        yield from ((f"{change}, of unlike sizes", near) for change, near in _lists(unlike))


def _unlike(sizes: Sequence[int]) -> list[int]:
    """Where two neighbours are the same, half of it and the double of it."""
    changed = list(sizes)
    for d, (size, following) in enumerate(itertools.pairwise(sizes)):
        if size == following == changed[d] and size > 2 and size % 2 == 0:
            changed[d : d + 2] = size // 2, size * 2
    return changed


def _contiguous(spec: InputSpec, shape: Sequence[int]) -> InputSpec:
    """The input with another shape, where it has one, and then without gaps."""
    if tuple(shape) == spec.shape:
        return spec
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return replace(spec, shape=tuple(shape), stride=tuple(strides))


def _with_others(first: Derived, others: Callable[[Any, fx.Node], list[Any]]) -> Iterator[tuple[str, Derived]]:
    for node in read_graph(first.text).nodes:
        for position, value in enumerate(node.args):
            for other in others(value, node):
                graph = read_graph(first.text)
                named = {n.name: n for n in graph.nodes}
                named[node.name].update_arg(position, _renamed(other, named))
                made = _with_text(first, graph)
                if made is not None:
                    yield f"{node.name}: {value} is {other}", made


def _renamed(value: Any, named: dict[str, fx.Node]) -> Any:
    """An argument with the nodes of another copy of the graph."""
    return map_arg(value, lambda node: named[node.name])


def _permutations(first: Derived) -> Iterator[tuple[str, Derived]]:
    """An input is permuted otherwise, with its sizes and strides chosen so that the result keeps its own.

    A key permuted straight into place is such a graph (pytorch/pytorch#195320).
    """
    nodes = list(read_graph(first.text).nodes)
    for number, node in enumerate(nodes):
        if not str(node.target).startswith("aten.permute") or node.args[0].op != "placeholder":
            continue
        index, dims = nodes.index(node.args[0]), list(node.args[1])
        spec = first.inputs[index]
        if len(dims) < 3 or len(node.args[0].users) > 1:
            continue
        sizes = [spec.shape[d] for d in dims]
        strides = [spec.stride[d] for d in dims]
        for last in itertools.permutations(sorted(dims[-3:])):
            other = [*dims[:-3], *last]
            if other in (dims, sorted(dims)):
                continue
            shape, stride = [0] * len(dims), [0] * len(dims)
            for place, d in enumerate(other):
                shape[d], stride[d] = sizes[place], strides[place]
            graph = read_graph(first.text)
            list(graph.nodes)[number].update_arg(1, other)
            made = _with_text(first, graph)
            if made is not None:
                changed = replace(spec, shape=tuple(shape), stride=tuple(stride))
                yield f"{node.name}: permuted by {other}, not {dims}", _with_input(made, index, changed)


def _others(value: Any, node: fx.Node) -> list[Any]:
    if not node.op.startswith("call") or node.target is operator.getitem or isinstance(value, bool):
        return []
    if isinstance(value, int):
        fills = [2.5, -1] if str(node.target).startswith(("aten.full", "aten.scatter")) else []
        return [*fills, 0 if value else 1]
    if isinstance(value, float):
        return [-value, 0.0, float("inf")]
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], int):
        return [[0 if value[0] else -1]]
    return []


def _other_orders(value: Any, node: fx.Node) -> list[Any]:
    if not node.op.startswith("call") or not isinstance(value, list) or len(value) < 2:
        return []
    if not all(type(v) is int for v in value) and not all(isinstance(v, fx.Node) for v in value):
        return []
    return [o for o in (value[::-1], [*value[1:], value[0]], [value[0]] * len(value)) if o != value]


def _factors(first: Derived) -> Iterator[tuple[str, Derived]]:
    """``alpha`` or ``beta`` of one call is not 1."""
    for number, node in enumerate(read_graph(first.text).nodes):
        if not isinstance(node.target, OpOverload):
            continue
        names = {a.name for a in schema_of(node.target).arguments if a.kwarg_only}
        for name in ("alpha", "beta"):
            if name in names:
                yield from _with_keyword(first, number, name, 2)


def _told_dtypes(first: Derived) -> Iterator[tuple[str, Derived]]:
    """A call is told another dtype: a coarser one first, which loses what the one before it kept."""
    for number, node in enumerate(read_graph(first.text).nodes):
        for other in (torch.int64, torch.bool, torch.float16, torch.float64):
            if "dtype" in node.kwargs and node.kwargs["dtype"] != other:
                yield from _with_keyword(first, number, "dtype", other)
            for place, value in enumerate(node.args):
                if isinstance(value, torch.dtype) and value != other:
                    graph = read_graph(first.text)
                    list(graph.nodes)[number].update_arg(place, other)
                    made = _with_text(first, graph)
                    if made is not None:
                        yield f"{node.name}: {value} is {other}", made


def _with_keyword(first: Derived, number: int, name: str, value: Any) -> Iterator[tuple[str, Derived]]:
    graph = read_graph(first.text)
    changed = list(graph.nodes)[number]
    changed.kwargs = {**changed.kwargs, name: value}
    made = _with_text(first, graph)
    if made is not None:
        yield f"{changed.name}: {name} is {value}", made


def _keywords(first: Derived) -> Iterator[tuple[str, Derived]]:
    """The last arguments of one call are given by name, where the program may spell it so: operators of ATen have one
    form.
    """
    for number, node in enumerate(read_graph(first.text).nodes):
        if node.op not in ("call_function", "call_method") or isinstance(node.target, OpOverload):
            continue
        packet = aten_packet(name_of(node.target))
        names = {tuple(a.name for a in schema_of(o).arguments) for o in (overloads_of(packet) if packet else [])}
        for named in sorted(names):
            for at in range(min(len(node.args), len(named)) - 1, 0, -1):
                graph = read_graph(first.text)
                changed = list(graph.nodes)[number]
                given = dict(zip(named[at:], changed.args[at:], strict=False))
                changed.args, changed.kwargs = changed.args[:at], {**given, **changed.kwargs}
                made = _with_text(first, graph) if len(given) + at == len(node.args) else None
                if made is not None:
                    yield f"{node.name}: {', '.join(given)} by name", made
