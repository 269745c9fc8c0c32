"""The oracle form and the registry of oracles.

An oracle is one file in ``oracles/`` with a function that reads the evidence of one call and
yields verdicts::

    @oracle(kinds=(Kind.STRIDE, Kind.OFFSET), step=2)
    def layout(evidence):
        '''What it compares, and under which policy.'''
        for name, eager, compiled in evidence.paired_outputs():
            ...
            yield Verdict(Status.FINDING, Kind.STRIDE, name, "...")

Oracles run in the order of ``step`` (the policy's order of judgement); clean slots yield
nothing.  Plug-ins register a module under the entry-point group ``fxmorph.oracles``; loose files
come from the folders of ``--oracles``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch

from fxmorph.core.config import ConfigError
from fxmorph.core.loose_files import import_file, loose_files
from fxmorph.judge.numeric import CLEAN, Comparison, NonFinite, compare
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.shadows import Shadows, Taken
from fxmorph.model import Kind, Status, ValuePlan, Verdict, VerdictCode
from fxmorph.programs.bits import same_bits
from fxmorph.programs.contents import same_plain, shown
from fxmorph.programs.observe import Observation, Slot

#: How far Python's floating-point numbers that come from no tensor may differ, relative to 1 or their size.
PLAIN_TOLERANCE = 1e-6
#: An array of numpy that no tensor stands behind is wrong, and not only rounded otherwise, this many times beyond that.
FAR_OFF = 1000.0


class OracleError(ConfigError):
    """An oracle is not well formed or defined twice; the message names where."""


class Reference(Protocol):
    """The reference run, made on first use."""

    def gates(self, slot: str = "") -> Gates:
        """Of the whole run, or those that lie before a slot."""
        ...

    def shadows(self, slot: str) -> Shadows | None: ...

    def taken(self, number: float) -> Taken | None:
        """What is known of a number that Python took from a tensor; None if it is none."""
        ...


def promises_bits(reference: Reference, slot: str) -> bool:
    """Whether all steps that lead to a slot were seen, and each has one right result to the bit.

    Steps stay unseen where the lanes have nothing of the slot: the reference run raised, say.
    """
    shadows = reference.shadows(slot)
    return shadows is not None and bool(shadows.lanes) and not reference.gates(slot).rounds_freely


@dataclass
class Evidence:
    """What oracles see of one call: eager, compiled, and a reference computed when asked for."""

    eager: Observation
    compiled: Observation
    reference: Reference
    plan: ValuePlan
    inputs: Callable[[], NonFinite] = lambda: NonFinite.NONE
    #: Whether the program is compiled to give eager's bits (``fxmorph/torchapi/strict_numerics.py``).
    strict: bool = False
    #: Of each slot what the same kernels give in fp64, where they are interpreted.
    in_fp64: Callable[[], Mapping[str, torch.Tensor]] = dict
    #: What :meth:`compare` said so far, by slot.
    compared: dict[str, Comparison] = field(default_factory=dict)
    #: Slots of numbers that were judged by the tensors that Python took them from.
    numbers: set[str] = field(default_factory=set)

    def paired(self, eager: list[Slot], compiled: list[Slot]) -> Iterator[tuple[str, Slot, Slot]]:
        """Slots of both sides that have the same name."""
        by_name = {s.name: s for s in compiled}
        for slot in eager:
            if slot.name in by_name:
                yield slot.name, slot, by_name[slot.name]

    def paired_outputs(self) -> Iterator[tuple[str, Slot, Slot]]:
        return self.paired(self.eager.outputs, self.compiled.outputs)

    def paired_after(self) -> Iterator[tuple[str, Slot, Slot]]:
        """None where arguments do not hold as many tensors in the same places on both sides."""
        same = self.eager.arguments == self.compiled.arguments
        return self.paired(self.eager.after, self.compiled.after) if same else iter(())

    def paired_backward(self) -> Iterator[tuple[str, Slot, Slot]]:
        """What a backward pass wrote beside gradients on one side at least."""
        if self.eager.raised or self.compiled.raised:
            return
        for name in sorted({s.name for s in (*self.eager.backward, *self.compiled.backward)}):
            mine, theirs = self.eager.slot(name), self.compiled.slot(name)
            if mine is not None and theirs is not None:
                yield name, mine, theirs

    def compare(self, name: str, eager: Slot, compiled: Slot) -> Comparison:
        """Values of one slot by the numeric policy; both must hold tensors of one shape."""
        if same_bits(eager.value, compiled.value):
            self.compared[name] = CLEAN
            return CLEAN
        got = compare(
            eager.value, compiled.value, self.reference.shadows(name), self.reference.gates(name), self.inputs()
        )
        self.compared[name] = got
        return got

    def accused(self, name: str) -> bool:
        """Whether the values of a slot are a finding by :meth:`compare`."""
        return name in self.compared and self.compared[name].status is Status.FINDING

    def compare_plain(self, name: str, eager: Any, compiled: Any) -> Comparison:
        """A value that is no tensor: equal, but for what rounding does to a number taken from a tensor."""
        equal = same_plain(eager, compiled)
        if equal:
            return CLEAN
        if equal is None and type(eager) is type(compiled):
            return CLEAN  # they do not say
        text = f"eager {shown(eager)}; compiled {shown(compiled)}"
        if isinstance(eager, np.ndarray | np.generic) and isinstance(compiled, np.ndarray | np.generic):
            return _compare_arrays(eager, compiled, text)
        if not (isinstance(eager, float) and isinstance(compiled, float)):
            return Comparison(Status.FINDING, text, code=VerdictCode.UNEQUAL)
        gates, taken = self.reference.gates(), self.reference.taken(eager)
        if gates.exact:
            text = f"in exact arithmetic: {text}"
            return Comparison(Status.FINDING, text, far=True, code=VerdictCode.EXACT_ARITHMETIC)
        if taken is None or taken.hangs:
            near = abs(eager - compiled) <= PLAIN_TOLERANCE * max(1.0, abs(eager))
            return CLEAN if near else Comparison(Status.FINDING, text, code=VerdictCode.UNEQUAL)
        self.numbers.add(name)
        e, c = (torch.tensor(v, dtype=taken.dtype) for v in (eager, compiled))
        got = self.compared[name] = compare(e, c, Shadows(e, taken.lanes), gates, self.inputs())
        return got

    def excused(self, place: str) -> bool:
        """Whether an object around the place, or there, says that it equals the other side's."""
        for mine, theirs in (
            (self.eager.objects.equals, self.compiled.objects.equals),
            (self.eager.objects_after.equals, self.compiled.objects_after.equals),
        ):
            for around, value in mine.items():
                inside = place == around or place.startswith((f"{around}.", f"{around}["))
                if inside and around in theirs and same_plain(value, theirs[around]):
                    return True
        return False

    def summary(self) -> list[str]:
        """The comparisons of values in a few lines."""
        same = [name for name, got in self.compared.items() if got == CLEAN]
        rest = [f"{name}: {got.status}: {got.reason}" for name, got in self.compared.items() if got != CLEAN]
        return [*([f"same bits: {', '.join(same)}"] if same else []), *rest]


def _compare_arrays(eager: Any, compiled: Any, text: str) -> Comparison:
    """Of arrays there is no reference, and torch.compile computes what numpy would: small differences say nothing."""
    if eager.dtype != compiled.dtype or eager.shape != compiled.shape or eager.dtype.kind not in "fc":
        return Comparison(Status.FINDING, text, code=VerdictCode.UNEQUAL)
    with np.errstate(all="ignore"):
        off = np.where(eager == compiled, 0, np.abs(eager.astype(complex) - compiled.astype(complex)))
        off = np.where((eager != eager) & (compiled != compiled), 0, off)
        rounding = max(PLAIN_TOLERANCE, 8 * float(np.finfo(eager.dtype).eps))
        beyond = float((np.where(off == off, off, np.inf) / (rounding * np.maximum(1, np.abs(eager)))).max())
    if beyond <= 1:
        return CLEAN
    if beyond > FAR_OFF:
        return Comparison(Status.FINDING, text, code=VerdictCode.UNEQUAL)
    text = f"no fp64 reference for an array of numpy: {text}"
    return Comparison(Status.INCONCLUSIVE, text, code=VerdictCode.NO_REFERENCE)


@dataclass(frozen=True)
class Oracle:
    """A named judge; ``step`` is its place in the order of judgement."""

    name: str
    kinds: tuple[Kind, ...]
    step: int
    judge: Callable[[Evidence], Iterable[Verdict]]
    source: str


def oracle(*, kinds: tuple[Kind, ...], step: int) -> Callable[[Callable[[Evidence], Iterable[Verdict]]], Oracle]:
    """Decorator that makes an :class:`Oracle` of a function."""

    def make(judge: Callable[[Evidence], Iterable[Verdict]]) -> Oracle:
        if not judge.__doc__:
            raise OracleError(f"oracle {judge.__name__!r} ({judge.__module__}): no docstring")
        return Oracle(judge.__name__, kinds, step, judge, judge.__code__.co_filename)

    return make


#: Folders of loose files whose oracles this process uses too.
_folders: list[Path] = []


def use_oracles(folders: Sequence[Path]) -> None:
    """Let this process use the oracles of these folders too; raises :class:`OracleError` for what does not load."""
    _folders[:] = folders
    load_oracles.cache_clear()
    load_oracles()


@cache
def load_oracles() -> tuple[Oracle, ...]:
    """Shipped oracles, those of plug-ins and those of :func:`use_oracles`, in the order of judgement."""
    import fxmorph.oracles as shipped

    found: dict[str, Oracle] = {}
    modules = [importlib.import_module(f"fxmorph.oracles.{m.name}") for m in pkgutil.iter_modules(shipped.__path__)]
    modules += [point.load() for point in metadata.entry_points(group="fxmorph.oracles")]
    modules += [_loose(file) for folder in _folders for file in loose_files(folder)]
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Oracle):
                old = found.get(value.name)
                if old is not None and old.source != value.source:
                    raise OracleError(f"oracle {value.name!r} is defined twice: {old.source} and {value.source}")
                found[value.name] = value
    return tuple(sorted(found.values(), key=lambda o: (o.step, o.name)))


def _loose(file: Path) -> ModuleType:
    try:
        return import_file(file)
    except OracleError:
        raise
    except Exception as error:
        raise OracleError(f"oracles in {file} do not load: {type(error).__name__}: {error}") from error


def verdict_of(comparison: Comparison, kind: Kind | None, slot: str) -> Verdict:
    """A verdict from a comparison; ``kind`` None keeps the comparison's own."""
    chosen = comparison.kind if kind is None else kind
    status, kind = comparison.status, chosen if comparison.status is Status.FINDING else None
    return Verdict(
        status, kind, slot, comparison.reason, far=comparison.far, code=comparison.code, single=comparison.single
    )
