"""Calls of operators on the arguments that torch's own tests have for them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import random
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy
import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from fxmorph.core.operator_seeds import part_of_tests
from fxmorph.core.said import said
from fxmorph.torchapi.changed_calls import bound, changed_calls
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import (
    DispatchMode,
    aten_packet,
    is_random,
    mutated_arguments,
    no_dispatch,
    tensors_of,
    tree_leaves,
)  # fmt: skip
from fxmorph.torchapi.first_on_cpu import refused_call
from fxmorph.torchapi.unlike_calls import most_unlike, on_nothing

#: Samples of an operator and dtype that are drawn, and of these run; calls of one overload that they may give.
DRAWN, SAMPLES, CALLS = 64, 12, 5
#: Calls of one overload that are looked at for those.
CANDIDATES = 24
#: Calls near those of an overload, with arguments changed: of the operator's own, and of others that it calls.
CHANGED, CHANGED_INSIDE = 12, 2
#: What samples are drawn in, turn by turn: the commonest, then finer, coarser and other ones.
DTYPES = ((torch.float32, torch.int64), (torch.bfloat16, torch.bool), (torch.float64, torch.complex64))
#: Turns: in all dtypes the calls of overloads by the tests that are for them, then those by other tests.
TURNS = 2 * len(DTYPES)
#: Overloads without a test of their own that tests of everything call.
_CALLED_EVERYWHERE = frozenset({"detach", "_to_copy", "_unsafe_view", "slice_backward"})
#: Results of more elements are left out.
LARGE = 100_000
#: In the place of an argument that another overload takes as a number.
NUMBER = 2


class NoSamples(Exception):
    """The installed torch has no samples that can be imported; the message says why."""


@dataclass(frozen=True)
class SampleCall:
    """A call of ``overload``, which ``operator`` of the tests made on a sample of ``dtype``."""

    operator: str
    dtype: torch.dtype
    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def signature(self) -> tuple[Any, ...]:
        """Equal for calls that differ in the values of tensors alone."""
        return _signature_of(self.overload, self.args, self.kwargs)


def sample_calls(
    wanted: Collection[OpOverload], part: int, parts: int, turn: int, device: str = "cpu"
) -> Iterator[SampleCall]:
    """Calls of overloads that are ``wanted``, in one of so many parts of the tests' operators and one of the turns.

    They run on ``device``, with what operators that come before leave for them there.

    Forward and backward, of each signature once; of overloads that no sample calls those that take the arguments
    of one that is called, with a number for a tensor, or those of the operator of that name.  None of what draws
    random numbers, or writes its arguments.  Raises :class:`NoSamples`.
    """
    functional = {o for o in wanted if not mutated_arguments(o)}
    seen: set[tuple[Any, ...]] = set()
    mine = [op for op in operator_tests() if part_of_tests(op.name, parts) == part]
    others, dtypes = divmod(turn, len(DTYPES))
    for op, dtype in itertools.product(mine, DTYPES[dtypes]):
        if dtype not in op.supported_dtypes(device):
            continue
        seed_generators(0)
        namesakes = set() if others else _namesakes(op)  # the gradients of one may be taken apart where it is not
        recorded = recorded_calls(op, dtype, functional | namesakes, device=device)
        calls = [c for c in recorded if c.overload in namesakes or _is_for(op, c.overload) != bool(others)]
        calls = [c for c in calls if c.signature not in seen]  # several tests of one operator have the same
        seen |= {call.signature for call in calls}
        yield from (call for call in calls if call.overload in functional)
        if dtype is DTYPES[dtypes][0]:
            changed = list(_changed(calls, f"{op.name} {dtype}"))
            yield from (call for call in changed if call.overload in functional)
            yield from _gradients(changed, functional, {call.signature for call in calls})


def _is_for(op: Any, overload: OpOverload) -> bool:
    """Whether this test is the one to try the overload with: it has its name, or none has."""
    name = overload.overloadpacket.__name__
    return name == _short(op.name) or name not in _names_of_tests() | _CALLED_EVERYWHERE


def _namesakes(op: Any) -> set[OpOverload]:
    return {overload for overload in _overloads_named(_short(op.name)) if not mutated_arguments(overload)}


def _overloads_named(name: str) -> list[OpOverload]:
    packet = aten_packet(name)
    return _overloads_of(packet) if packet is not None else []


def _overloads_of(packet: Any) -> list[OpOverload]:
    return [getattr(packet, known) for known in packet.overloads()]


@functools.cache
def _names_of_tests() -> frozenset[str]:
    return frozenset(_short(op.name) for op in operator_tests())


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def recorded_calls(
    op: Any, dtype: torch.dtype, wanted: Collection[OpOverload], kin: bool = True, device: str = "cpu"
) -> list[SampleCall]:
    """Calls of overloads that are ``wanted``, the most unlike ones, on such samples of one of the tests' operators.

    ``kin``: of overloads that no sample calls too, with the arguments of one that is called.
    """
    recorder = _Recorder(op.name, dtype, wanted, kin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in _drawn(op, dtype, device):
            with contextlib.suppress(Exception):
                recorder.record(op, (sample.input, *sample.args), sample.kwargs)
                if kin:
                    recorder.take_named(op, sample)
    return recorder.chosen()


def _gradients(
    changed: Sequence[SampleCall], wanted: Collection[OpOverload], seen: Collection[tuple[Any, ...]]
) -> Iterator[SampleCall]:
    """Calls of backward overloads that the gradients of changed calls need, but for those whose like was ``seen``."""
    backward = {o for o in wanted if "backward" in o.overloadpacket.__name__}
    if not changed or not backward:
        return
    recorder = _Recorder(changed[0].operator, changed[0].dtype, backward, kin=False, most=CHANGED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in changed:
            if not all(t.numel() for t in tensors_of((call.args, call.kwargs))):
                continue  # backward kernels of some operators end the process on nothing
            if refused_call(call.overload, call.args, call.kwargs):
                continue
            with contextlib.suppress(Exception):
                recorder.record(call.overload, *tree_map(_leaf, (call.args, call.kwargs)))
    yield from (call for call in recorder.chosen() if call.signature not in seen)


def _leaf(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    return value.detach().clone().requires_grad_() if floats else value


def _changed(calls: Sequence[SampleCall], key: str) -> Iterator[SampleCall]:
    """Calls of the same overloads with arguments changed on purpose."""
    by_overload: dict[OpOverload, list[SampleCall]] = {}
    for call in calls:
        if not on_nothing((call.args, call.kwargs)):
            by_overload.setdefault(call.overload, []).append(call)
    for overload, made in by_overload.items():
        own = _short(made[0].operator) == overload.overloadpacket.__name__
        count = -(-(CHANGED if own else CHANGED_INSIDE) // len(made))
        for place, call in enumerate(made[: CHANGED if own else CHANGED_INSIDE]):
            for args, kwargs in changed_calls(overload, call.args, call.kwargs, key, count, place * count):
                if not is_random(overload, args, kwargs):
                    yield replace(call, args=args, kwargs=kwargs)


@functools.cache
def operator_tests() -> tuple[Any, ...]:
    """Torch's own tests of operators; takes some seconds.  Raises :class:`NoSamples`."""
    if importlib.util.find_spec("expecttest") is None:
        # Torch's tests import it for what is not used here.
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    try:
        return tuple(importlib.import_module("torch.testing._internal.common_methods_invocations").op_db)
    except Exception as error:
        raise NoSamples(said(error)) from None


def _drawn(op: Any, dtype: torch.dtype, device: str = "cpu") -> list[Any]:
    """The most unlike of the first samples; those before one that cannot be drawn."""
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    drawn: list[Any] = []
    with contextlib.suppress(Exception), _outside_of_tests():
        for sample in itertools.islice(op.sample_inputs(device, dtype, requires_grad=differentiable), DRAWN):
            drawn.append(sample)
    return most_unlike(drawn, lambda sample: [sample.input, sample.args, sample.kwargs], SAMPLES)


@contextlib.contextmanager
def _outside_of_tests() -> Iterator[None]:
    """Torch's tests seed before each sample, and look through the stack for the test that draws it.

    Of devices that are not there each seed keeps a stack trace for later, and reading the stack takes longer than
    drawing a sample.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

    def seeded(seed: int | None = None) -> None:
        seed_samples(common_utils.SEED if seed is None else seed)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(common_utils, "set_rng_seed", seeded))
        for module in (common_utils, core):
            if hasattr(module, "extract_test_fn"):
                stack.enter_context(mock.patch.object(module, "extract_test_fn", lambda: None))
        yield


def seed_samples(seed: int) -> None:
    """All three generators that torch's tests draw samples from."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    seed_generators(seed)


class _Recorder(DispatchMode):
    """Notes what is called of ``wanted``: of each overload ``most`` are chosen among :data:`CANDIDATES`."""

    def __init__(
        self, operator: str, dtype: torch.dtype, wanted: Collection[OpOverload], kin: bool, most: int = CALLS
    ) -> None:
        super().__init__()
        self._kin, self._most = kin, most
        self._calls: list[SampleCall] = []
        self._operator, self._dtype, self._wanted = operator, dtype, wanted
        self._seen: set[tuple[Any, ...]] = set()
        self._counts: dict[OpOverload, int] = {}
        #: Those of ``wanted`` by the operator whose overloads they are.
        self._known: dict[Any, list[OpOverload]] = {}
        self._composites: dict[str, list[OpOverload]] = {}
        for overload in wanted if kin else ():
            if _is_composite(overload) and hasattr(torch._C._nn, name := overload.overloadpacket.__name__):
                self._composites.setdefault(name, []).append(overload)

    def chosen(self) -> list[SampleCall]:
        """In the order in which overloads were called first."""
        of_each: dict[OpOverload, list[SampleCall]] = {}
        for call in self._calls:
            of_each.setdefault(call.overload, []).append(call)
        chosen = (
            most_unlike(calls, lambda c: bound(c.overload, c.args, c.kwargs), self._most) for calls in of_each.values()
        )
        return [call for calls in chosen for call in calls]

    def record(self, called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forward, and backward where something requires grad."""
        with self, self._composites_told() if self._kin else contextlib.nullcontext():
            out = called(*args, **kwargs)
            results = [t for t in tensors_of(out) if t.requires_grad]
            leaves = [t for t in tensors_of((args, kwargs)) if t.requires_grad]
            if results and leaves:
                torch.autograd.grad(results, leaves, [torch.randn_like(t) for t in results], allow_unused=True)

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(func, OpOverload):
            self._note(func, args, kwargs)
            if self._kin:
                self._note_kin(func, args, kwargs)
        return func(*args, **kwargs)

    def take_named(self, op: Any, sample: Any) -> None:
        """Of the operator of that name, which the dispatcher takes apart before a mode sees it."""
        for name in {_short(op.name), getattr(op, "aten_name", "")}:
            for overload in _overloads_named(name):
                self._try(overload, (sample.input, *sample.args), sample.kwargs)

    @contextlib.contextmanager
    def _composites_told(self) -> Iterator[None]:
        """Overloads that the dispatcher takes apart before a mode sees them are noted when Python calls them:
        ``upsample_bilinear2d.vec``, which has scale factors, and becomes the one that has sizes.
        """
        with contextlib.ExitStack() as patched:
            for name, overloads in self._composites.items():
                function = getattr(torch._C._nn, name)

                def told(*args: Any, function: Any = function, overloads: Any = overloads, **kwargs: Any) -> Any:
                    for overload in overloads:
                        if self._counts.get(overload, 0) < CANDIDATES:
                            self._try(overload, args, kwargs)
                    return function(*args, **kwargs)

                patched.enter_context(mock.patch.object(torch._C._nn, name, told))
            yield

    def _note_kin(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Other overloads of the operator, as they are and with a number for the first or the second argument."""
        packet = func.overloadpacket
        known = self._known.get(packet)
        if known is None:
            known = self._known[packet] = [o for o in _overloads_of(packet) if o in self._wanted]
        for overload in known:
            if overload is func or self._counts.get(overload, 0) >= CANDIDATES:
                continue
            for place in (None, 1, 0):
                given = args if place is None else (*args[:place], NUMBER, *args[place + 1 :])
                if self._try(overload, given, kwargs):
                    break

    def _try(self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if overload not in self._wanted or not _may_take(overload, args, kwargs) or is_random(overload, args, kwargs):
            return False
        try:
            with no_dispatch():
                if refused_call(overload, args, kwargs):
                    return False
                overload(*tree_map(_copied, args), **tree_map(_copied, kwargs))
        except Exception:
            return False
        self._note(overload, args, kwargs)
        return True

    def _note(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if func not in self._wanted or self._counts.get(func, 0) >= CANDIDATES or is_random(func, args, kwargs):
            return
        tensors = tensors_of((args, kwargs))
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided for t in tensors):
            return
        if sum(t.numel() for t in tensors) > LARGE:
            return
        signature = _signature_of(func, args, kwargs)
        if signature not in self._seen:
            self._seen.add(signature)
            self._counts[func] = self._counts.get(func, 0) + 1
            with no_dispatch():
                given, keywords = tree_map(_copied, (args, kwargs))
            self._calls.append(SampleCall(self._operator, self._dtype, func, given, keywords))


def _is_composite(overload: OpOverload) -> bool:
    """Whether the dispatcher takes it apart before autograd; it does not know those that only TorchScript has."""
    try:
        return bool(overload.has_kernel_for_dispatch_key(torch.DispatchKey.CompositeImplicitAutograd))
    except RuntimeError:
        return False


def _may_take(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the overload may take the arguments: torch says at length, and slowly, what is wrong with them.

    A flag where it takes dimensions is what another overload takes there.
    """
    takes = _argument_types(overload)
    if len(args) > len(takes) or not takes.keys() >= kwargs.keys():
        return False
    given = [*zip(args, takes.values(), strict=False), *((v, takes[name]) for name, v in kwargs.items())]
    for value, kind in given:
        if isinstance(value, torch.Tensor) != ("Tensor" in kind) and not isinstance(value, (list, tuple, type(None))):
            return False
        if type(value) is bool and "int" in kind:
            return False
    return True


@functools.cache
def _argument_types(overload: OpOverload) -> dict[str, str]:
    return {argument.name: str(argument.type) for argument in overload._schema.arguments}


def _copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().resolve_conj().resolve_neg()
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)


def _signature_of(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    def said(value: Any) -> Any:
        return (value.dtype, value.shape, value.stride()) if isinstance(value, torch.Tensor) else repr(value)

    return (overload, *map(said, tree_leaves(bound(overload, args, kwargs))))
