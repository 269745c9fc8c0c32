"""Programs of calls of one operator, on the arguments that torch's own tests have for it, and on varied ones.

Several calls are one program: a compile costs a third of a second whatever there is in it, a call some milliseconds.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from fxmorph.core.operator_seeds import MIXED, ListedOperator, OperatorProgram, Setting
from fxmorph.torchapi.changed_calls import bound, changed_calls
from fxmorph.torchapi.decompose import inductor_decompositions, is_decomposed, may_decline
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import DispatchMode, is_random, mutated_arguments, tensors_of
from fxmorph.torchapi.operator_samples import SampleCall, operator_tests, recorded_calls, seed_samples
from fxmorph.torchapi.unlike_calls import most_unlike
from fxmorph.torchapi.varied_calls import described, passes_shape_check, varied, with_other_numbers

#: Calls of one program, samples that are looked through for them, and elements that the tensors of a call may have.
CALLS, LOOKED_THROUGH, ELEMENTS = 8, 120, 20_000
#: Parts of changed calls that are drawn at once: those that are most unlike each other come first.
PARTS_DRAWN = 8
#: Fewest and most changed calls of one program: two for each argument and two more, since what is overlooked hangs on
#: one argument or on two together.
FEWEST, MOST = 4, 16
#: Twins a call.
TWINS = 0.25
#: The first argument of a call, the other ones, and those by name.
_Call = tuple[Any, list[Any], dict[str, Any]]
#: Operators whose results are whatever memory holds, and those that look at less than they need.
_UNINITIALISED, _UNCHECKED = ("empty", "new_empty", "resize"), "unsafe"


class NoProgram(Exception):
    """There is no such program; the message says why."""


@dataclass(frozen=True)
class _Sample:
    """A call, and whether it is a variation: not one of torch's own."""

    call: _Call
    varied: bool = False


@dataclass(frozen=True)
class _Accepted:
    """A call of something that eager takes, and whether it gives views: alone they are no kernel's work."""

    called: Callable[..., Any]
    call: _Call
    views: bool


@dataclass(frozen=True)
class _Drawn:
    """A program, and the tensors that it is called with."""

    fn: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]


def operator_program(program: OperatorProgram) -> Callable[[], tuple[Callable[..., Any], list[Any]]]:
    """What makes the program and its inputs anew, under the RNG seed of then; raises :class:`NoProgram`."""
    tests = [_test(name) for name in program.operators]
    for test in tests:
        _dtypes_of(program, test)
        _called_by(program, test)

    @functools.cache
    def drawn(seed: int) -> _Drawn:
        calls = list[_Accepted]()
        for test in tests:
            seed_samples(seed)
            made = _calls(program, test)
            calls += [a for one, sample in made if (a := _accepted(one, sample, program.setting)) is not None]
        if not calls:
            said = f"{program.dtype} that eager takes in part {program.part}"
            raise NoProgram(f"{program.operator} has no calls of {said}")
        changed, odd = program.setting is Setting.CHANGED, program.part % 2 == 1
        fused = program.setting.fused or (changed and odd)
        return _written(calls, program.setting, fused, viewed=changed)

    def make() -> tuple[Callable[..., Any], list[Any]]:
        # One function for all draws of a seed: another one would be compiled anew.
        made = drawn(torch.initial_seed())
        return made.fn, [_leaf(t) for t in made.tensors]

    return make


def _dtypes_of(program: OperatorProgram, test: Any) -> list[torch.dtype]:
    named = [d for d in test.dtypes if str(d) == f"torch.{program.dtype}"]
    dtypes = _known_dtypes(test) if program.dtype == MIXED else named
    if not dtypes:
        raise NoProgram(f"{_name(test)} has no samples of {program.dtype}")
    return dtypes


def _called_by(program: OperatorProgram, test: Any) -> Callable[..., Any]:
    called: Callable[..., Any] | None = test.inplace_variant if program.setting is Setting.IN_PLACE else test.op
    if called is None:
        raise NoProgram(f"{_name(test)} has no variant that works in place")
    return called


def _calls(program: OperatorProgram, test: Any) -> list[tuple[Callable[..., Any], _Sample]]:
    """Of one operator, with what is called; where nothing can be changed the samples as they are."""
    dtypes = _dtypes_of(program, test)
    changed = _changed(test, dtypes[:2], program.part) if program.setting is Setting.CHANGED else []
    if changed:
        return changed
    samples = _chosen([_distinct(test, d, program.setting) for d in dtypes[: 1 + CALLS // 2]], program.part)
    return [(_called_by(program, test), sample) for sample in samples]


def _changed(test: Any, dtypes: Sequence[torch.dtype], part: int) -> list[tuple[Callable[..., Any], _Sample]]:
    """Calls of the overload that has the operator's name, or of those that it is made of and Inductor knows, with
    arguments changed on purpose, in the dtypes.
    """
    turn, place = divmod(part, PARTS_DRAWN)
    chosen = _parts_of_changes(_name(test), tuple(dtypes), turn)[place]
    return [(c.overload, _Sample((c.args[0], [*c.args[1:]], c.kwargs))) for c in chosen]


def _changed_at_once(overload: OpOverload) -> int:
    """How many changed calls are one program: a list of tensors can differ in more ways than one of them."""
    arguments = [str(a.type) for a in overload._schema.arguments]
    return max(FEWEST, min(MOST, 2 + 2 * len(arguments) + 4 * sum("List[" in a and "Tensor" in a for a in arguments)))


# Parts of one turn follow each other, and packs of programs that were looked at.
@functools.lru_cache(maxsize=256)
def _parts_of_changes(name: str, dtypes: tuple[torch.dtype, ...], turn: int) -> list[list[SampleCall]]:
    """Calls near those of an operator in these dtypes, by the changes of that turn, the most unlike first, in
    :data:`PARTS_DRAWN` parts of one size.
    """
    own = [_recorded(name, dtype) for dtype in dtypes]
    near = [call for one_of_each in itertools.zip_longest(*own) for call in one_of_each if call is not None]
    size = max((_changed_at_once(call.overload) for call in near), default=FEWEST)
    count = PARTS_DRAWN * size if near else 0
    key, made = _test(name).name, dict[str, SampleCall]()
    for number in range(turn * count, (turn + 1) * count):
        call = near[number % len(near)]
        for args, kwargs in changed_calls(call.overload, call.args, call.kwargs, key, 1, number):
            if args and _plain((args, kwargs)):
                said = f"{call.overload} {described((args, kwargs))}"
                made.setdefault(said, replace(call, args=args, kwargs=kwargs))
    calls = most_unlike(list(made.values()), lambda c: (str(c.overload), bound(c.overload, c.args, c.kwargs)), count)
    return [calls[place * size : (place + 1) * size] for place in range(PARTS_DRAWN)]


@functools.lru_cache(maxsize=64)
def _recorded(name: str, dtype: torch.dtype) -> list[SampleCall]:
    seed_generators(0)
    test, known = _test(name), _known_overloads()
    namesakes = {o for o in known if o.overloadpacket.__name__ == test.name.rpartition(".")[2]}
    own = recorded_calls(test, dtype, namesakes, kin=False) if namesakes else []
    return own or recorded_calls(test, dtype, known, kin=False)


@functools.cache
def _known_overloads() -> frozenset[OpOverload]:
    """Overloads that write nothing and that Inductor lowers itself, or takes apart."""
    from torch._inductor import lowering

    lowered = {o for o in lowering.lowerings if isinstance(o, OpOverload) and _has_own_lowering(o)}
    known = lowered | {o for o in inductor_decompositions() if isinstance(o, OpOverload)}
    named = {o: o.overloadpacket.__name__ for o in known if not mutated_arguments(o)}
    return frozenset(o for o, name in named.items() if not name.startswith(_UNINITIALISED))


def _chosen(samples: Sequence[list[_Sample]], part: int) -> list[_Sample]:
    """Those of one part; of several dtypes half from the first, one from each other, of other calls each."""
    first, others = samples[0], samples[1:]
    size = CALLS - len(others)
    later = [of_one[(place + part) % len(of_one)] for place, of_one in enumerate(others, 1) if of_one]
    return [*first[part * size : (part + 1) * size], *later]


def listed_operators() -> tuple[ListedOperator, ...]:
    """Operators of the tests that programs are made of; those that draw random numbers are left out.

    Takes some five seconds of CPU.
    """
    return tuple(sorted(filter(None, map(_listed, operator_tests())), key=lambda found: found.name))


def _listed(test: Any) -> ListedOperator | None:
    if test.name.rpartition(".")[2].startswith(_UNINITIALISED) or _UNCHECKED in test.name:
        return None
    known = _known_dtypes(test)
    try:
        samples = _distinct(test, known[0], Setting.ALONE)
        called = _called_by_sample(test, samples[0].call) if samples else None
    except Exception:  # samples that cannot be drawn, or that eager refuses
        return None
    if called is None:
        return None
    differentiable = bool(test.supports_autograd) and known[0].is_floating_point
    names = tuple(str(d).removeprefix("torch.") for d in known)
    parts = -(-len(samples) // CALLS)
    lowered = [(overload, words) for overload, words in called if _is_lowered(overload)]
    return ListedOperator(
        _name(test), names, parts, differentiable, test.inplace_variant is not None,
        frozenset(" ".join((str(overload), *words)) for overload, words in lowered),
        frozenset(_lowered_by(overload) for overload, _ in lowered),
    )  # fmt: skip


def _is_lowered(overload: OpOverload) -> bool:
    """Whether Inductor has a lowering of its own for the operator, and does not take it apart before, or not always."""
    return _has_own_lowering(overload) and (not is_decomposed(overload) or may_decline(overload))


def _has_own_lowering(overload: OpOverload) -> bool:
    """Whether a function of Inductor's lowers it, and not just a call of the operator itself."""
    from torch._inductor import lowering

    return overload in lowering.lowerings and "fallback_handler" not in _lowered_by(overload)


def _lowered_by(overload: OpOverload) -> str:
    """The function that lowers it, by name: it may choose, call by call, to call the operator itself."""
    from torch._inductor import lowering

    function = inspect.unwrap(lowering.lowerings[overload])
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"


def _known_dtypes(test: Any) -> list[torch.dtype]:
    """Those of programs that the operator has, preferred ones first."""
    return [d for d in _DTYPES if d in test.dtypes]


#: Dtypes of programs, in the order in which they are preferred.
_DTYPES = (
    torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.float64, torch.float16, torch.complex64,
    torch.int32, torch.uint8,
)  # fmt: skip


def _name(test: Any) -> str:
    return f"{test.name}.{test.variant_test_name}" if test.variant_test_name else str(test.name)


@functools.cache
def _tests() -> dict[str, Any]:
    return {_name(test): test for test in operator_tests()}


def _test(name: str) -> Any:
    found = _tests().get(name)
    if found is None:
        raise NoProgram(f"torch {torch.__version__} has no tests of an operator {name!r}")
    return found


class _Noted(DispatchMode):
    """Notes which overloads are called, and how, and whether one draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        #: What was called, with words among the arguments: they choose between computations.
        self.calls: set[tuple[OpOverload, tuple[str, ...]]] = set()
        self.random = False

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(func, OpOverload):
            self.calls.add((func, tuple(v for v in tree_leaves((args, kwargs)) if isinstance(v, str))))
            self.random |= is_random(func, args, kwargs)
        return func(*args, **kwargs)


def _called_by_sample(test: Any, call: _Call) -> set[tuple[OpOverload, tuple[str, ...]]] | None:
    """None where the operator draws random numbers, or gives what is not judged; raises what eager raises."""
    first, rest, keywords = call
    mode = _Noted()
    with mode, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = test.op(first, *rest, **keywords)
    return None if mode.random or not _plain(out) else mode.calls


# -- samples -------------------------------------------------------------------------


def _distinct(test: Any, dtype: torch.dtype, setting: Setting) -> list[_Sample]:
    """Samples whose arguments differ in more than values: first one of each set of arguments that are no tensors, the
    most unlike ones first.

    After each a variation of it, which eager may refuse.
    """
    wanted = setting.differentiated and test.supports_autograd
    differentiable = wanted and (dtype.is_floating_point or dtype.is_complex)
    alike: dict[str, list[_Call]] = {}
    seen: set[str] = set()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        # ``test.sample_inputs`` seeds anew and looks for its caller's name at each sample, which takes milliseconds.
        drawn = test.sample_inputs_func(test, "cpu", dtype, differentiable)
        for sample in itertools.islice(drawn, LOOKED_THROUGH):
            call = (sample.input, list(sample.args), dict(sample.kwargs))
            key = described(call)
            if key not in seen and _plain(call):
                seen.add(key)
                alike.setdefault(str(tree_map(_spelled, call[1:])), []).append(call)
    order = most_unlike(list(alike), lambda key: alike[key][0], len(alike))
    rounds = itertools.zip_longest(*(alike[key] for key in order))
    calls = [call for one_of_each in rounds for call in one_of_each if call is not None]
    return [each for place, call in enumerate(calls) for each in _with_variation(test.name, place, call, seen)]


def _with_variation(name: str, place: int, call: _Call, seen: set[str]) -> list[_Sample]:
    """The call, and ones with some things otherwise, where they can be made and were not seen."""
    made = [_Sample(call)]
    for variation in (varied, with_other_numbers):
        try:
            other: _Call | None = variation(call, f"{name} {place}")
        except Exception:  # what no tensor of the dtype can be made of
            continue
        key = described(other)
        if other is not None and key not in seen:
            seen.add(key)
            made.append(_Sample(other, varied=True))
    return made


def _plain(call: Any) -> bool:
    tensors = [t for t in tree_leaves(call) if isinstance(t, torch.Tensor)]
    if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided for t in tensors):
        return False
    return sum(t.numel() for t in tensors) <= ELEMENTS and not any(t.is_quantized for t in tensors)


def _spelled(value: Any) -> str:
    return f"tensor of rank {value.dim()}" if isinstance(value, torch.Tensor) else repr(value)


def _accepted(called: Any, sample: _Sample, setting: Setting) -> _Accepted | None:
    """None where eager does not take the call with tensors that have memory of their own, or a variation is misuse."""
    if setting is Setting.IN_PLACE and not isinstance(sample.call[0], torch.Tensor):
        return None
    first, rest, keywords = tree_map(lambda v: _leaf(v).detach() if isinstance(v, torch.Tensor) else v, sample.call)
    # First of all: kernels of some operators look at less, and read what is not there.
    if sample.varied and not passes_shape_check(called, sample.call):
        return None
    try:
        with torch.no_grad():
            out = called(first, *rest, **keywords)
    except Exception:
        return None
    given = {t.untyped_storage().data_ptr() for t in tensors_of((first, rest, keywords))}
    return _Accepted(
        called, sample.call, any(t.numel() and t.untyped_storage().data_ptr() in given for t in tensors_of(out))
    )


def _leaf(value: torch.Tensor) -> torch.Tensor:
    plain = value.detach().resolve_conj().resolve_neg()
    if 0 in plain.stride() and plain.numel():  # elements that share a place cannot be written one by one
        size = 1 + sum((n - 1) * stride for n, stride in zip(plain.shape, plain.stride(), strict=True))
        copy = plain.as_strided((size,), (1,)).clone().as_strided(plain.shape, plain.stride()).detach()
    else:
        copy = torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype).copy_(plain)
    return copy.requires_grad_(value.requires_grad)


# -- programs ------------------------------------------------------------------------


def _written(calls: Sequence[_Accepted], setting: Setting, fused: bool, viewed: bool) -> _Drawn:
    """The calls as text, one a line: Dynamo then has nothing to trace but them.

    Views are read by a kernel, too.  ``viewed``: every other call is one of views that the program takes of its inputs.
    Where nothing is written some are followed by their twins, which are not to be taken for them.
    """
    names = {
        id(one): f"called{place or ''}" for place, one in enumerate({id(c.called): c.called for c in calls}.values())
    }
    computed = _scaled if setting is Setting.TRAINED else _twice_negated
    known: dict[str, Any] = {"computed": computed, "doubled": _doubled}
    known |= {names[id(c.called)]: c.called for c in calls}
    tensors: list[torch.Tensor] = []
    #: Names of the tensors of one call, for its twin.
    again: Iterator[str] | None = None
    #: What takes a view of an input, by the input's name.
    taken: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    of_views = False

    def spelled(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            if again is not None:
                return next(again)
            name = f"t{len(tensors)}"
            if of_views:
                base, taken[name] = _base_of(value, len(tensors))
                tensors.append(base)
            else:
                tensors.append(_leaf(value))
            return name
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            inner = ", ".join(map(spelled, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        known[f"c{len(known)}"] = value
        return f"c{len(known) - 1}"

    def line(result: str, accepted: _Accepted) -> str:
        first, rest, keywords = accepted.call
        given = [spelled(first), *map(spelled, rest), *(f"{k}={spelled(v)}" for k, v in keywords.items())]
        return f"    {result} = {names[id(accepted.called)]}({', '.join(given)})"

    lines, results = [], [f"out{i}" for i in range(len(calls))]
    for place, accepted in enumerate(calls):
        of_views = viewed and place % 2 == 1 and _takes_views(accepted, len(tensors))
        begin = len(tensors)
        lines.append(line(f"out{place}", accepted))
        enough = setting is Setting.IN_PLACE or len(results) >= len(calls) * (1 + TWINS)
        twin = None if enough else _twin(accepted, place)
        if twin is not None:
            again = iter([f"t{i}" for i in range(begin, len(tensors))])
            lines.append(line(f"twin{place}", twin))
            results.append(f"twin{place}")
            again = None
    arguments = [f"t{i}" for i in range(len(tensors))]
    if fused:
        lines[:0] = [f"    {name} = computed({name})" for name in arguments if name not in taken]
        results += [f"doubled({name})" for name in results]
    elif setting is not Setting.IN_PLACE:
        results += [f"doubled(out{place})" for place, accepted in enumerate(calls) if accepted.views]
    lines[:0] = [f"    {name} = view_{name}({name})" for name in taken]
    known |= {f"view_{name}": view for name, view in taken.items()}
    text = "\n".join([f"def fn({', '.join(arguments)}):", *lines, f"    return [{', '.join(results)}]"])
    exec(compile(text, "<operator program>", "exec"), known)
    known["fn"].text = text
    return _Drawn(known["fn"], tuple(tensors))


def _twin(accepted: _Accepted, number: int) -> _Accepted | None:
    """The call on the same tensors with one number or flag otherwise, or as another type; None where eager takes none.

    What merges equal calls has to tell them apart.
    """
    leaves, spec = tree_flatten(accepted.call)
    places = [i for i, leaf in enumerate(leaves) if type(leaf) in (bool, int, float)]
    for i in places[number % len(places) :] + places[: number % len(places)] if places else []:
        for other in _unlike(leaves[i]):
            call = tree_unflatten([other if k == i else leaf for k, leaf in enumerate(leaves)], spec)
            twin = _accepted(accepted.called, _Sample(call, varied=True), Setting.ALONE)
            if twin is not None:
                return twin
    return None


def _unlike(value: bool | int | float) -> list[Any]:
    """Others in the place of a number or a flag: one that equals it, then one near it."""
    if isinstance(value, bool):
        return [not value]
    equal = [float(value) if isinstance(value, int) else int(value)] if value == value // 1 else []
    return [*equal, value + 1]


def _takes_views(accepted: _Accepted, number: int) -> bool:
    """Whether eager takes the call of views, the first of them the input of that ``number``, as well."""
    numbers = itertools.count(number)

    def view(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        base, taken = _base_of(value, next(numbers))
        return taken(base)

    first, rest, keywords = tree_map(view, accepted.call)
    try:
        with torch.no_grad():
            accepted.called(first, *rest, **keywords)
    except Exception:
        return False
    return True


def _base_of(value: torch.Tensor, number: int) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """A tensor that ``value`` is a view of, and what takes the view; what else it holds are values of the same sort."""
    value = _leaf(value).detach()
    other = value.flatten().roll(1).view(value.shape)
    views = [_row, _tail, _turned][: 1 + min(value.dim(), 2)]
    view = views[number % len(views)]
    if view is _row:
        return torch.stack([other, value]), view
    if view is _tail:
        return torch.cat([other[..., :1], value], -1), view
    return _turned(value).contiguous(), view


def _row(base: torch.Tensor) -> torch.Tensor:
    return base[1]


def _tail(base: torch.Tensor) -> torch.Tensor:
    return base[..., 1:]


def _turned(base: torch.Tensor) -> torch.Tensor:
    return base.permute([*reversed(range(base.dim()))])


def _twice_negated(t: torch.Tensor) -> torch.Tensor:
    """The same values, computed: so that kernels that read them are fused with what computes them."""
    return t.neg().neg() if t.is_floating_point() else t


def _scaled(t: torch.Tensor) -> torch.Tensor:
    """Values near those, rounded: what computes them again for the backward pass may round otherwise."""
    return t * 0.9 if t.is_floating_point() else t


def _doubled(out: Any) -> Any:
    """Another user of a result."""
    if isinstance(out, torch.Tensor):
        return out + out if out.is_floating_point() else out.clone()
    return [_doubled(o) for o in out] if isinstance(out, (list, tuple)) else None
