"""All that a call lets its caller see, as one record that can be compared.

Values of outputs, of inputs and module state after the call, and of gradients are *slots*,
named by where they are (``out0``, ``input1``, ``grad:weight``); what objects hold is looked into
(``out1.layers[0].keys``: fxmorph/programs/contents.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fxmorph.core.kernel_faults import KernelFault
from fxmorph.core.strides import visible_strides
from fxmorph.model import RNG_SEED
from fxmorph.programs.bits import same_bits
from fxmorph.programs.contents import Contents, is_tensor, look_into
from fxmorph.programs.load import Invocation, state_of
from fxmorph.programs.memory import overlap
from fxmorph.programs.modes import modes_restored
from fxmorph.programs.signature import Signature, signature_of
from fxmorph.torchapi.compiling import spoken
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import no_dispatch, tree_flatten, watched
from fxmorph.torchapi.raising_frames import raising_frames
from fxmorph.torchapi.storages import storage_key


@dataclass(frozen=True)
class Meta:
    """What can be asked of a tensor without reading it; ``type`` is the name of its class."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    device: str
    requires_grad: bool
    numel: int
    type: str

    @property
    def visible_strides(self) -> tuple[int, ...]:
        """Strides of the dimensions of size > 1; an empty tensor has none that can be seen."""
        if self.numel == 0:
            return ()
        return visible_strides(self.shape, self.stride)


@dataclass
class Slot:
    """A value and its metadata; ``value`` is a detached clone, or a plain Python object."""

    name: str
    value: Any
    meta: Meta | None = None


@dataclass
class Observation:
    """``raised`` holds ``Type: message``, ``exception`` the object and ``signature`` its identity when the call raised.

    ``generators`` is a hash of the states of the random generators after the call, ``arguments``
    the nesting and types of the arguments and the names of module state then: ``after`` has the
    tensors and plain values that are in them then, and the tensors that the call took out of them
    (``after:dropped:input1``).  ``objects`` are what was returned and is no tensor or plain value, by place, and
    ``objects_after`` those in the arguments.  ``own_memory`` names the results whose memory is nobody else's,
    ``within`` the slots that lie in an object, which is looked into.
    """

    outputs: list[Slot] = field(default_factory=list)
    structure: str = ""
    arguments: str = ""
    after: list[Slot] = field(default_factory=list)
    gradients: list[Slot] = field(default_factory=list)
    #: What the backward pass wrote beside gradients: ``backward:state:mean``.
    backward: list[Slot] = field(default_factory=list)
    aliases: frozenset[tuple[str, str]] = frozenset()
    identities: frozenset[tuple[str, str]] = frozenset()
    raised: str = ""
    exception: BaseException | None = None
    signature: Signature | None = None
    #: Frames of torch that it was raised in, as :func:`raising_frames` gives them.
    raised_in: tuple[tuple[str, str], ...] = ()
    in_backward: bool = False
    generators: str = ""
    #: What gradients are of, where they were asked for.
    loss: float | None = None
    objects: Contents = field(default_factory=Contents)
    objects_after: Contents = field(default_factory=Contents)
    own_memory: frozenset[str] = frozenset()
    #: Where memory that results alone share begins, as the first of them has it, in bytes, by the names of these.
    begins: Mapping[str, int] = field(default_factory=dict)
    within: frozenset[str] = frozenset()
    #: What kernels did that they may not, where they were interpreted.
    faults: tuple[KernelFault, ...] = ()

    @property
    def returned(self) -> bool:
        """Whether the call returned; what raised, if anything, is the backward pass after it."""
        return not self.raised or self.in_backward

    def slots(self) -> dict[str, Slot]:
        """Every slot by name."""
        return {s.name: s for s in (*self.outputs, *self.after, *self.gradients, *self.backward)}

    def meta(self) -> dict[str, Meta | None]:
        """All but the values of every slot, by name."""
        return {name: slot.meta for name, slot in self.slots().items()}

    def slot(self, name: str) -> Slot | None:
        """The slot of that name; of what a backward pass did not write, what the call left there."""
        slots, place = self.slots(), name.removeprefix("backward:")
        return slots.get(name) if place == name else slots.get(name, slots.get(f"after:{place}", slots.get(place)))

    def offset_of(self, slot: Slot) -> int:
        """Where in memory that others have a part in a tensor begins; 0 in memory of its own.

        Where results alone share it, from where the first of them begins: what lies before that is nobody's.
        """
        if slot.meta is None or slot.name in self.own_memory:
            return 0
        return slot.meta.offset - self.begins.get(slot.name, 0) // slot.meta.dtype.itemsize

    def unseen(self) -> dict[str, str]:
        """What could not be looked into, and is not judged: why, by place."""
        return {**self.objects.unseen, **self.objects_after.unseen}


def meta_of(t: torch.Tensor) -> Meta:
    strided = t.layout == torch.strided
    return Meta(
        t.dtype,
        tuple(t.shape),
        tuple(t.stride()) if strided else (),
        int(t.storage_offset()) if strided else 0,
        t.device.type,
        t.requires_grad,
        t.numel(),
        type(t).__name__,
    )


#: Positions of what a call wrote begin there, behind those of any number of outputs.
WRITTEN = 1 << 20


def frozen(name: str, value: Any, keep: Callable[[torch.Tensor], Any] | None = None) -> Slot:
    """A slot of a tensor or of any other object."""
    if is_tensor(value):
        return Slot(name, keep(value) if keep else value.detach().clone(), meta_of(value))
    return Slot(name, value)


def loss_of(
    outputs: Sequence[torch.Tensor | None], exact: bool, written: Sequence[torch.Tensor | None] = ()
) -> torch.Tensor | None:
    """Σ output · weight over the outputs that require grad, with fixed weights by position.

    ``written`` are tensors that a call wrote, whose weights are the same however many outputs there are.
    Weights are eighths between -2 and 2 (small integers if ``exact``), exact in every dtype,
    so that eager, compiled and reference runs have the same ones.  They are drawn with
    numpy: a reference run must not take them for random numbers of the program.
    """
    total: torch.Tensor | None = None
    for k, out in (*enumerate(outputs), *enumerate(written, WRITTEN)):
        if out is None or not out.requires_grad or not (out.is_floating_point() or out.is_complex()):
            continue
        real = torch.view_as_real(out) if out.is_complex() else out
        draw = np.random.default_rng(7919 + k)
        eighths = draw.integers(1, 4, real.shape) * 8 if exact else draw.integers(1, 17, real.shape)
        weight = torch.from_numpy(np.asarray(eighths * draw.choice([-1, 1], real.shape) / 8.0))
        term = (real * weight.to(device=real.device, dtype=real.dtype)).sum()
        total = term if total is None else total + term.to(total.dtype)
    return total


def as_is(fn: Any) -> Any:
    """What eager execution makes of a program."""
    return fn


@modes_restored()
def observe(
    invocation: Invocation,
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = as_is,
    *,
    no_grad: bool = False,
    inference: bool = False,
    calls: int = 1,
    exact: bool = False,
    rng_seed: int = RNG_SEED,
    mode: AbstractContextManager[Any] | None = None,
    keep: Callable[[torch.Tensor], Any] | None = None,
) -> Observation:
    """Run a fresh program once and record what can be seen; never raises for what it does.

    Of several ``calls`` on the same objects the last is recorded.  ``keep`` replaces the clone
    of each tensor (the reference run keeps its shadows).  Gradients are of outputs and of what the
    call wrote into its inputs; a program that runs ``backward`` itself is not differentiated again.
    ``KeyboardInterrupt`` and the like pass through.  Modes that it switches are switched back.
    """
    seen = Observation()
    named = named_tensors(invocation)
    histories = {id(t): t.grad_fn for t in named.values()}
    without_grad = [k for k, t in named.items() if _grad_of(t) is None]
    try:
        with torch.inference_mode() if inference else torch.no_grad() if no_grad else contextlib.nullcontext():
            g = wrap(invocation.fn)
            with watched(mode) if mode is not None else contextlib.nullcontext():
                held = []  # what earlier calls returned stays alive, as it may in a program
                for _ in range(calls):
                    seed_generators(rng_seed)
                    held.append(invocation.drive(g))
                result = held[-1]
                seen.generators = _generators()
                leaves, spec = tree_flatten(result)
                closed = {id(part) for part in (g, invocation.fn, *_modules_of(invocation.fn))}
                returned = look_into(((f"out{i}", o) for i, o in enumerate(leaves)), closed)
                passed = look_into(_objects_in(invocation), closed)
                tensors = returned.tensors
                seen.structure, seen.objects, seen.objects_after = _spoken(spec), returned, passed
                seen.outputs = [frozen(name, o, keep) for name, o in returned.slots.items()]
                of_earlier = tree_flatten(held[:-1])[0]
                earlier = look_into((f"earlier:out{i}", o) for i, o in enumerate(of_earlier)).tensors
                itself = {f"out{i}" for i in range(len(leaves))} | {f"earlier:out{i}" for i in range(len(of_earlier))}
                inside = {f"after:{k}" for k in (passed.slots.keys() | earlier.keys()) - itself}
                seen.within = frozenset(inside | (returned.slots.keys() - itself))
                now = _held(invocation, passed, named)
                _relations(seen, tensors, {**now, **earlier}, {id(t) for t in named.values()})
                seen.arguments = _arguments(invocation, now)
                slots = (*now.items(), *_around(now), *earlier.items(), *passed.plain.items())
                seen.after = [frozen(f"after:{k}", t, keep) for k, t in slots]
                if not no_grad and all(_grad_of(named[k]) is None for k in without_grad):
                    seen.in_backward = True
                    written = [None if t.grad_fn is histories.get(id(t)) else t for t in now.values()]
                    loss = loss_of([*tensors.values()], exact, written)
                    if loss is not None and loss.requires_grad:
                        # A reference run would take it for a number that the program has taken from a tensor.
                        seen.loss = float(loss.detach()) if mode is None else None
                        loss.backward()
                        changed = _changed({**now, **tensors}, seen)
                        seen.backward = [frozen(f"backward:{k}", t, keep) for k, t in changed.items()]
                    seen.in_backward = False
                grads = {k: _grad_of(t) for k, t in named.items()}
                seen.gradients = [frozen(f"grad:{k}", g, keep) for k, g in grads.items() if g is not None]
    except (Exception, AssertionError) as error:
        seen.raised = spoken(error)
        seen.signature = signature_of(error)
        seen.raised_in = raising_frames(error)
        seen.exception = _without_frames(error)
    return seen


def same_observation(
    a: Observation, b: Observation, alike: Callable[[str, torch.Tensor, torch.Tensor], bool] = lambda *_: False
) -> bool:
    """Whether two runs of the same program show the same relations, and the same bits.

    ``alike(slot, x, y)`` may say of strided tensors of other bits that they are the same.
    """
    if bool(a.raised) != bool(b.raised) or a.aliases != b.aliases or a.structure != b.structure:
        return False
    mine, theirs = a.slots(), b.slots()
    if mine.keys() != theirs.keys():
        return False
    for name, slot in mine.items():
        other = theirs[name]
        if isinstance(slot.value, torch.Tensor):
            if not isinstance(other.value, torch.Tensor) or slot.meta != other.meta:
                return False
            strided = slot.value.layout == torch.strided
            if strided and not same_bits(slot.value, other.value) and not alike(name, slot.value, other.value):
                return False
    return True


def named_tensors(invocation: Invocation) -> dict[str, torch.Tensor]:
    """The tensors in the arguments and the module of a fresh program, by the names that slots have."""
    return _held(invocation, look_into(_objects_in(invocation)), {})


def generators_before(rng_seed: int = RNG_SEED) -> str:
    """The states of the random generators before a call, as ``Observation.generators`` has them after it."""
    seed_generators(rng_seed)
    return _generators()


def _grad_of(t: torch.Tensor) -> torch.Tensor | None:
    return t.grad if t.is_leaf and t.requires_grad else None  # asking others for it warns


def _changed(tensors: dict[str, torch.Tensor], seen: Observation) -> dict[str, torch.Tensor]:
    """Those that are no longer what was ``seen`` of them after the call."""
    with no_dispatch():
        before = {k: seen.slot(f"backward:{k}") for k in tensors}
        was = {k: getattr(slot.value, "native", slot.value) for k, slot in before.items() if slot is not None}
        plain = {k: t.detach() for k, t in tensors.items() if k in was and t.layout == torch.strided}
        return {k: tensors[k] for k, t in plain.items() if t.shape != was[k].shape or not same_bits(t, was[k])}


def _held(invocation: Invocation, passed: Contents, before: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors in arguments and module state now, and those of ``before`` that are there no longer."""
    given = filter(is_tensor, tree_flatten(invocation.args)[0])
    now = {f"input{i}": t for i, t in enumerate(given)} | passed.tensors
    now |= {f"state:{k}": t for k, t in (state_of(invocation.fn) or invocation.state).items()}
    kept = {id(t) for t in now.values()}
    return now | {f"dropped:{k}": t for k, t in before.items() if id(t) not in kept}


def _objects_in(invocation: Invocation) -> Iterator[tuple[str, Any]]:
    """What is no tensor among the arguments, nested ones too, by its place in their order."""
    leaves = tree_flatten(invocation.args)[0]
    return ((f"arg{i}", value) for i, value in enumerate(leaves) if not is_tensor(value))


def _modules_of(fn: Any) -> Iterator[torch.nn.Module]:
    return fn.modules() if issubclass(type(fn), torch.nn.Module) else iter(())


def _spoken(spec: Any) -> str:
    """The nesting of what is returned; where in memory an object lies that it was made with is no part of it."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(spec))


def _arguments(invocation: Invocation, now: dict[str, torch.Tensor]) -> str:
    leaves, spec = tree_flatten(invocation.args)
    types = ["tensor" if is_tensor(x) else type(x).__name__ for x in leaves]
    return f"{_spoken(spec)} of {', '.join([*types, *sorted(k for k in now if k.startswith('state:'))])}"


def _generators() -> str:
    """A hash of the states of the random generators."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states += [state.cpu() for state in torch.cuda.get_rng_state_all()]
    return hashlib.sha256(b"".join(state.numpy().tobytes() for state in states)).hexdigest()[:16]


def _without_frames(error: BaseException) -> BaseException:
    """The exception chain without tracebacks, whose frames would keep tensors and compilers alive."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        inner = getattr(link, "inner_exception", None)
        if isinstance(inner, BaseException):
            inner.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def _around(named: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """The whole memory of those inputs that are only a part of theirs."""
    for name, t in named.items():
        if t.layout == torch.strided and t.numel() * t.element_size() < t.untyped_storage().nbytes():
            n = t.untyped_storage().nbytes() // t.element_size()
            yield f"memory:{name}", t.detach().as_strided((n,), (1,), 0)  # a view, which leaves shadows as they are


def _relations(
    seen: Observation, outs: dict[str, torch.Tensor], named: dict[str, torch.Tensor], before: Collection[int]
) -> None:
    """Pairs of a result and what was there before it, or an earlier result.

    Results are what was returned, and what the call put into its arguments: what is in ``named`` and not
    among ``before``, the ids of what they held.
    """
    everything = {**named, **outs}
    at: dict[int, list[str]] = {}  # names by the memory that is theirs
    aliases, same, alone = set(), set(), set()
    begins: dict[str, int] = {}
    for k, t in everything.items():
        if t.layout == torch.strided:
            at.setdefault(storage_key(t), []).append(k)
    order = {k: i for i, k in enumerate(everything)}
    for k, t in everything.items():
        if k not in outs and id(t) in before:
            continue
        beside = at[storage_key(t)] if t.layout == torch.strided else list(everything)
        for other in beside:
            if order[other] < order[k] and not k.startswith("earlier:"):
                same.update([(k, other)] if t is everything[other] else [])
                aliases.update([(k, other)] if overlap(t, everything[other]) else [])
        if all(t is everything[other] for other in beside):
            alone.add(k if k in outs else f"after:{k}")
        elif t.layout == torch.strided and all(other in outs for other in beside):
            begins[k] = min(int(everything[o].storage_offset()) * everything[o].element_size() for o in beside)
    seen.begins = begins
    seen.aliases, seen.identities, seen.own_memory = frozenset(aliases), frozenset(same), frozenset(alone)
