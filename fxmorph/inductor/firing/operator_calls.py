"""Calls of an operator on a value: with plain arguments first, then with each one otherwise, one at a time."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxmorph.inductor.firing.argument_values import (
    OMITTED,
    WIDENING,
    Fresh,
    Given,
    New,
    Words,
    kind_of,
    options_of,
    spec_like,
)
from fxmorph.inductor.firing.module_calls import SHAPES as MODULE_SHAPES
from fxmorph.inductor.firing.module_calls import module_calls
from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, aten_packet, mutated_arguments, schema_of
from fxmorph.torchapi.own_patterns import auto_functionalized


@dataclass(frozen=True)
class Call:
    """A call of ``target``; arguments hold :class:`Given`, :class:`New` and :class:`Fresh`."""

    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


#: Sizes of the first argument, by the operator's name; else those of :data:`SHAPES`.
SHAPES = ((4, 6), (2, 3, 4))
_FIRST: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("mm", "addmm", "t", "_int_mm"), (4, 6)),
    **dict.fromkeys(("bmm", "baddbmm", "linear", "layer_norm", "native_layer_norm", "rms_norm"), (2, 3, 4)),
    **dict.fromkeys(
        ("convolution", "conv2d", "max_pool2d", "avg_pool2d", "max_pool2d_with_indices", "adaptive_avg_pool2d",
         "_adaptive_avg_pool2d", "batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training",
         "upsample_nearest2d", "pixel_shuffle", "pixel_unshuffle", "native_group_norm", "group_norm",
         "reflection_pad2d", "replication_pad2d", "instance_norm"),
        (2, 4, 6, 6),
    ),
    **dict.fromkeys(("conv1d", "max_pool1d", "avg_pool1d"), (2, 4, 8)),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention"),
        (2, 2, 4, 8),
    ),
    "embedding": (10, 6), "pixel_shuffle": (2, 4, 3, 3), "_assert_async": (1,),
}  # fmt: skip
#: Those that models call on images and on heads of attention as well.
_OF_IMAGES = frozenset("permute transpose mean cat interpolate".split())
#: What operators of Python do, as ATen calls it.
_PYTHON = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div", operator.matmul: "matmul",
    operator.pow: "pow", operator.neg: "neg", operator.floordiv: "floor_divide", operator.eq: "eq", operator.ne: "ne",
    operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge", operator.and_: "bitwise_and",
    operator.or_: "bitwise_or", operator.iadd: "add", operator.imul: "mul", operator.isub: "sub",
    operator.mod: "remainder",
}  # fmt: skip
#: Tensors that a list has at most.
LONGEST = 16
_OVERLOADS = ("default", "Tensor", "Scalar", "dim", "int", "self", "dim_IntList", "Tensor_Scalar", "dtype", "sizes")


#: Types of numbers that a call may leave out.
_OPTIONAL_NUMBERS = frozenset(f"Optional[{kind}]" for kind in ("float", "number", "Scalar"))


def first_shapes(target: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of a value that a call may be made on, the likeliest first."""
    if isinstance(target, type):
        return MODULE_SHAPES
    name = name_of(target)
    if name in _OF_IMAGES:
        return (*SHAPES, (2, 3, 4, 5))
    if name in WIDENING:
        return (SHAPES[0], (1, 3, 4), (4, 1), *SHAPES[1:])
    known = _FIRST.get(name)
    return (known,) if known else SHAPES


def name_of(target: Any) -> str:
    """The operator's name, without namespace and overload."""
    if isinstance(target, OpOverload):
        return str(schema_of(target).name).rpartition("::")[2]
    if isinstance(target, OpOverloadPacket):
        return str(target).rpartition(".")[2]
    return _PYTHON.get(target, target if isinstance(target, str) else getattr(target, "__name__", ""))


def overloads_of(packet: OpOverloadPacket) -> list[OpOverload]:
    """Those that write nothing, the usual ones first, up to four."""
    names = list(packet.overloads())
    ordered = [*(n for n in _OVERLOADS if n in names), *(n for n in names if n not in _OVERLOADS)]
    found = [getattr(packet, name) for name in ordered]
    plain = [o for o in found if not any(a.is_out for a in schema_of(o).arguments)]
    return plain[:4]


def takes_tensors(overload: OpOverload) -> bool:
    """Whether any argument is a tensor, or tensors."""
    return any("Tensor" in kind_of(a) for a in schema_of(overload).arguments)


def takes_numbers(target: Any, numbers: Sequence[float]) -> bool:
    """Whether these may be what comes behind the first argument; of what has no schema running tells."""
    packet = None if isinstance(target, OpOverload) else aten_packet(name_of(target))
    overloads = [target] if isinstance(target, OpOverload) else overloads_of(packet) if packet is not None else []
    for overload in overloads:
        behind = schema_of(overload).arguments[1 : 1 + len(numbers)]
        if len(behind) == len(numbers) and all(map(_may_be, behind, numbers)):
            return True
    return not overloads


def _may_be(argument: Any, number: float) -> bool:
    kind = kind_of(argument).removeprefix("Optional[").removesuffix("]")
    if argument.kwarg_only:
        return False
    if kind in ("int", "SymInt"):
        return isinstance(number, int)
    return kind in ("float", "number", "Scalar") or (kind == "Tensor" and argument.name == "other")


def calls(target: Any, value: torch.Tensor | None, words: Words, like: torch.Tensor | None = None) -> Iterator[Call]:
    """Calls on a (fake) value, or of what takes none; many do not fit, which running them tells.

    ``like``: what a call that takes no tensor is to give.
    """
    if target is operator.getitem:
        yield from _elements(value)
        return
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        yield from (Call("call_module", make, (Given(),)) for make in module_calls(target, value))
        return
    if isinstance(target, OpOverload):
        spelled = _spelled(target, value, words, True, like)
        yield from _functionalised(target, spelled) if mutated_arguments(target) else spelled
        return
    packet = target if isinstance(target, OpOverloadPacket) else aten_packet(name_of(target).removesuffix("_"))
    overloads = overloads_of(packet) if packet is not None else []
    spellings = [_spelled(overload, value, words, aten=False) for overload in overloads]
    for overload, spelled in zip(overloads, spellings, strict=True):  # one of each: these differ most
        for call in itertools.islice(spelled, 1):
            yield from _as(target, call)
            yield from _by_name(target, call, overload)
    for call in itertools.chain.from_iterable(spellings):
        yield from _as(target, call)
    if packet is None and not isinstance(target, OpOverloadPacket):
        yield Call("call_method" if isinstance(target, str) else "call_function", target, (Given(),))


def _functionalised(target: OpOverload, spelled: Iterator[Call]) -> Iterator[Call]:
    """Calls of what writes its arguments, as AOTAutograd has them: every argument by name, what is written is new."""
    arguments = list(schema_of(target).arguments)
    written = {name for _, name in mutated_arguments(target)}
    for call in spelled:
        given = {a.name: a.default_value for a in arguments if a.has_default_value()}
        given |= dict(zip([a.name for a in arguments], call.args, strict=False)) | dict(call.kwargs)
        given |= {name: Fresh(given[name].spec) for name in written if isinstance(given.get(name), New)}
        if not any(isinstance(given.get(name), Given) for name in written):
            yield Call("call_function", auto_functionalized, (target,), tuple(given.items()))


def _as(target: Any, call: Call) -> Iterator[Call]:
    """The call as a method or function of torch, with lists also spread out."""
    op = "call_method" if isinstance(target, str) else "call_function"
    if target in _PYTHON and call.kwargs:
        return
    yield replace(call, op=op, target=target)
    if not any(isinstance(a, list) and all(isinstance(v, int) for v in a) for a in call.args):
        return
    if op == "call_method" and len(call.args) == 2:
        yield replace(call, op=op, target=target, args=(call.args[0], *call.args[1]))
    yield replace(call, op=op, target=target, args=tuple(tuple(a) if isinstance(a, list) else a for a in call.args))


def _by_name(target: Any, call: Call, overload: OpOverload) -> Iterator[Call]:
    """The call of a function of torch with every argument by its name, as programs may have it."""
    if isinstance(target, str) or target in _PYTHON:
        return
    try:
        names = list(inspect.signature(target).parameters)
    except ValueError:  # what is not written in Python says no names; its first is ``input`` there
        names = ["input" if a.name == "self" else a.name for a in schema_of(overload).arguments]
    named = zip(names, call.args, strict=False)
    yield Call("call_function", target, (), (*named, *call.kwargs))


def _elements(value: Any) -> Iterator[Call]:
    if isinstance(value, (tuple, list)):
        for i in range(len(value)):
            yield Call("call_function", operator.getitem, (Given(), i))
    elif value is not None:
        for index in (0, (slice(None), slice(1, None)), (slice(None), slice(None, None, 2)), (Ellipsis, None)):
            yield Call("call_function", operator.getitem, (Given(), index))


@dataclass(frozen=True)
class _Rows:
    """A tensor with so many rows, and the value's other sizes."""

    count: int


#: Arguments behind the first that programs give together.
_TOGETHER: dict[str, tuple[tuple[Any, ...], ...]] = {
    "slice": (
        (0, 0, 2**63 - 1), (1, 0, 2**63 - 1), (1, 1, 2**63 - 1), (0, 0, 2), (1, 0, 2**63 - 1, 2), (0, 1, 3),
        (1, 0, 4), (-1, 0, 3), (0, -2, 2**63 - 1), (0, 0, 2**63 - 1, 2),
    ),
    "narrow": ((0, 0, 2), (1, 1, 2)),
    "split_with_sizes": (([1, 3], 0), ([2, 4], 1), ([2, 2, 2], 1), ([2, 2], 0), ([1, 3], -1)),
    "transpose": ((0, 1), (-2, -1), (1, 0)),
    "flatten": ((0, -1), (1, -1), (0, 1)),
    "select": ((0, 0), (1, 1), (-1, 0), (0, -1)),
    "squeeze": ((0,), (1,), (-1,)),
    "repeat_interleave": ((2, 1), (2, 0), (2, -1)),
    "slice_scatter": ((_Rows(2), 0, 1, 3), (_Rows(1), 0, 0, 1)),
}  # fmt: skip


def _spelled(
    overload: OpOverload, value: torch.Tensor | None, words: Words, aten: bool, like: torch.Tensor | None = None
) -> Iterator[Call]:
    arguments = list(schema_of(overload).arguments)
    name = name_of(overload)
    by_place = [a for a in arguments if not a.kwarg_only]
    if isinstance(value, torch.Tensor) and all(a.has_default_value() for a in arguments if a.kwarg_only):
        for together in _TOGETHER.get(name, ()):
            rows = (New(spec_like(value, (v.count, *value.shape[1:]))) if isinstance(v, _Rows) else v for v in together)
            if len(together) < len(by_place):
                yield Call("call_function", overload, (Given(), *rows))
    places = [i for i, a in enumerate(arguments) if kind_of(a) in ("Tensor", "List[Tensor]")]
    for place in _places(name, places) if value is not None else [-1]:
        if place < 0 and places:
            continue
        options = [
            [*_given_at(a, value, words)]
            if i == place
            else [*options_of(name, a, like if value is None else value, words)]
            for i, a in enumerate(arguments)
        ]
        if any(not some for some in options):
            continue
        plain = [some[0] for some in options]
        if name in ("add", "sub") and any(isinstance(v, (int, float)) for v in plain[1:2]):
            options = [some[:1] if a.name == "alpha" else some for a, some in zip(arguments, options, strict=True)]
        yield _call(overload, arguments, plain, aten)
        yield from _numbers_together(overload, arguments, plain, aten)
        longest = max((len(some) for some in options), default=0)
        for turn in range(1, longest):
            for i, some in enumerate(options):
                if turn < len(some):
                    yield _call(overload, arguments, [*plain[:i], some[turn], *plain[i + 1 :]], aten)


def _numbers_together(
    overload: OpOverload, arguments: Sequence[Any], plain: Sequence[Any], aten: bool
) -> Iterator[Call]:
    """The plain call with all optional numbers given, the larger the later, as the two ends of ``clamp``."""
    places = [i for i, a in enumerate(arguments) if plain[i] is OMITTED and kind_of(a) in _OPTIONAL_NUMBERS]
    if len(places) > 1:
        for least, apart in ((0, 2), (-0.5, 1.0)):
            given = {place: least + apart * n for n, place in enumerate(places)}
            yield _call(overload, arguments, [given.get(i, v) for i, v in enumerate(plain)], aten)


def varied(
    target: OpOverload, args: Sequence[Any], kwargs: Sequence[tuple[str, Any]], value: Any, words: Words
) -> Iterator[Call]:
    """The call with one argument otherwise at a time, the others as they are; ``value`` is its first tensor's.

    Arguments that it leaves to their defaults come first: passes forget those.
    """
    arguments = list(schema_of(target).arguments)
    named = dict(kwargs)
    current = [args[i] if i < len(args) else named.get(a.name, OMITTED) for i, a in enumerate(arguments)]
    first = next((i for i, a in enumerate(arguments) if kind_of(a) in ("Tensor", "List[Tensor]")), -1)
    options = [
        [] if i == first else list(options_of(name_of(target), a, value, words)) for i, a in enumerate(arguments)
    ]
    if any(isinstance(v, (int, float)) for v in args[1:2]):  # nobody scales a number by ``alpha``
        options = [[] if a.name == "alpha" else some for a, some in zip(arguments, options, strict=True)]
    for i, some in enumerate(options):
        given = [v for v in some if v is not OMITTED]
        if current[i] is OMITTED and given:
            yield _call(target, arguments, [*current[:i], given[0], *current[i + 1 :]], True)
    for turn in range(max((len(some) for some in options), default=0)):
        for i, some in enumerate(options):
            if turn < len(some) and some[turn] is not current[i] and some[turn] != current[i]:
                yield _call(target, arguments, [*current[:i], some[turn], *current[i + 1 :]], True)


#: What functions of torch take beside ATen's names, as numpy calls it.
_AS_NUMPY = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def defaults(target: Any, placed: int, named: Collection[str]) -> dict[str, Any]:
    """Numbers and flags that a call leaves to their defaults, by name: passes before may have written them out."""
    packet = aten_packet(name_of(target).removesuffix("_"))
    for overload in overloads_of(packet) if packet is not None else ():
        arguments = list(schema_of(overload).arguments)
        given = {a.name for a in arguments[:placed]} | set(named)
        plain = [a for a in arguments if a.name not in given and isinstance(a.default_value, (bool, int, float))]
        if plain and placed <= len(arguments):
            return {a.name: a.default_value for a in plain}
    return {}


def further_keywords(target: Any, placed: int, named: Collection[str], words: Words) -> Iterator[tuple[str, Any]]:
    """Keywords, each with a value that is not its default, that a call of a function of torch may have besides.

    It has ``placed`` arguments by their place, and others that are ``named``.
    """
    packet = aten_packet(name_of(target).removesuffix("_"))
    seen: set[str] = set()
    for overload in overloads_of(packet) if packet is not None else ():
        arguments = list(schema_of(overload).arguments)
        given = {a.name for a in arguments[:placed]} | {_AS_NUMPY.get(n, n) for n in named} | seen
        for argument in arguments:
            if argument.name in given or not argument.has_default_value() or "Tensor" in kind_of(argument):
                continue
            others = (v for v in options_of(name_of(target), argument, None, words) if v is not OMITTED)
            for value in itertools.islice((v for v in others if v != argument.default_value), 1):
                seen.add(argument.name)
                yield argument.name, value


def _places(name: str, places: list[int]) -> list[int]:
    """The arguments that the value may be, the likeliest first."""
    if name in ("addmm", "baddbmm", "addbmm", "addmv", "where", "embedding") and len(places) > 1:
        return [places[1], places[0], *places[2:]]
    return places[:3]


def _given_at(argument: Any, value: Any, words: Words) -> Iterator[Any]:
    """What an argument is that the value is, or is one of: lists are longer than a number that the pass names, too."""
    if kind_of(argument) == "List[Tensor]":
        if isinstance(value, torch.Tensor):
            yield [Given(), New(spec_like(value))]
            for count in dict.fromkeys(int(n) + 1 for n in words.numbers if 2 < n <= LONGEST):
                yield [Given(), *(New(spec_like(value)) for _ in range(count - 1))]
            yield [Given(), Given()]
            yield [New(spec_like(value)), Given()]
            yield [Given()]
            if value.ndim:
                yield [New(spec_like(value, (0, *value.shape[1:]))), Given()]
                yield [New(spec_like(value, (0, *value.shape[1:]), torch.float64)), Given()]
            yield [New(spec_like(value, None, torch.float64)), Given()]
    else:
        yield Given()


def _call(overload: OpOverload, arguments: Sequence[Any], values: Sequence[Any], aten: bool) -> Call:
    """As the dispatcher hands it on: defaults at the end are left out, keywords are those that must be."""
    placed: list[Any] = []
    kwargs: list[tuple[str, Any]] = []
    gap = False
    for argument, value in zip(arguments, values, strict=True):
        left_out = value is OMITTED
        if argument.kwarg_only:
            kwargs += [] if left_out else [(argument.name, value)]
        elif left_out and not aten:
            gap = True
        elif gap:
            kwargs.append((argument.name, value))
        else:
            placed.append(value)
    while placed and placed[-1] is OMITTED:
        placed.pop()
    by_place = [a for a in arguments if not a.kwarg_only]
    filled = [a.default_value if v is OMITTED else v for a, v in zip(by_place, placed, strict=False)]
    return Call("call_function", overload, tuple(filled), tuple(kwargs))
