"""Code generation of single operations of Inductor's IR, each compared with what it means.

An operator of our own is lowered to one operation (``ops.exp``), so that nothing but the printing of
that operation stands between its compiled and its interpreted result.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch

from fxmorph.model import CompileConfig
from fxmorph.torchapi.compiling import COMPILER_EXCEPTIONS, compile_callable, configured
from fxmorph.torchapi.noted_operations import Noted, Operand, Operation

#: Operations that are tried on values of ours where no kernel could be interpreted.
_UNARY = (
    "abs exp exp2 expm1 sqrt relu cos sin lgamma erf cosh sinh acos acosh asin asinh atan atanh erfc log10 log2 rsqrt "
    "log1p tan tanh sigmoid log floor trunc ceil neg reciprocal isnan isinf signbit square sign round"
).split()
_BINARY = "minimum maximum atan2 copysign hypot fmod eq ne lt gt le ge add sub mul truediv pow".split()
#: Kinds of ``ops.reduction``.
_REDUCTIONS = "sum prod max min argmax argmin".split()
#: Which of two zeros is given is the operation's own choice.
_EITHER_ZERO = frozenset("maximum minimum fma reduction store remainder fmod".split())
#: Relative error beyond which an operation is wrong; vectorised approximations are far below.
TOLERANCE = 1e-3
#: Fewer elements than these are repeated, so that vector loops have something to do and something is left for the tail.
_LEAST = 67
_MOST = 4096
#: Elements of a row that is stored at once.
_ROW = 35


@dataclass(frozen=True)
class _Trial:
    """One operation, what it is tried on, and what it means there; ``chosen``: it decides between 1 and 0, which is
    not how it is stored; ``back``: what it gives is converted to that dtype again.
    """

    operation: Operation
    operands: list[torch.Tensor]
    wanted: torch.Tensor
    chosen: bool = False
    back: torch.dtype | None = None


def _meant(operation: Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    from fxmorph.torchapi.kernel_operations import interpreted_alone  # of what older releases lack

    return interpreted_alone(operation, operands)


@dataclass
class _Tried:
    """Operations by the number that operators of our own know them by."""

    by_number: list[_Trial] = field(default_factory=list)


_tried = _Tried()


def wrong_operations(
    noted: Noted, config: CompileConfig, device: str = "cpu", among: Collection[str] | None = None
) -> list[str]:
    """Those operations whose generated code is wrong, or does not compile, under ``config``.

    They are tried on the operands that were noted; those of ``among`` that no kernel noted, on values of ours.
    Kinds of reductions and of stores are in brackets.  Resets Dynamo.
    """
    alone = [t for o, calls in noted.calls.items() if (t := _trial(o, calls, device)) is not None]
    trials = [other for trial in alone for other in (trial, *_otherwise(trial))]
    names = {t.operation.name for t in trials}
    if among is not None:
        among = {"masked" if n.startswith("masked") else n for n in among}
        trials = [t for t in trials if t.operation.name in among]
        trials += _ordinary(among - names, device)
    try:
        wrong = _wrong(trials, config)
    except COMPILER_EXCEPTIONS:  # one of them; each alone says which
        wrong = trials
    wrong = [t for t in wrong if _alone_is_wrong(t, config)]
    return list(dict.fromkeys("constant" if _wrong_by_constants(t, config) else _name(t.operation) for t in wrong))


def _wrong_by_constants(trial: _Trial, config: CompileConfig) -> bool:
    """Whether the operation is right where its constants come from memory."""
    operands = list(trial.operands)

    def loaded(argument: Any) -> Any:
        if not isinstance(argument, Operand) or argument.constant is None:
            return argument
        operands.append(torch.full_like(operands[0], argument.constant, dtype=argument.dtype))
        return Operand(len(operands) - 1, argument.dtype)

    arguments = tuple(map(loaded, trial.operation.arguments))
    if len(operands) == len(trial.operands):
        return False
    operation = replace(trial.operation, arguments=arguments)
    return not _alone_is_wrong(_Trial(operation, operands, trial.wanted), config)


def _name(operation: Operation) -> str:
    if operation.name == "reduction":
        return f"reduction({operation.arguments[2]})"
    return "store(atomic_add)" if operation.name == "store" else operation.name


def _trial(
    operation: Operation, calls: Sequence[tuple[list[torch.Tensor], torch.Tensor]], device: str
) -> _Trial | None:
    """The calls that were noted as one; None where there are none."""
    if not calls:
        return None
    if operation.name in ("reduction", "store"):
        operands, wanted = calls[0]
        return None if wanted.ndim == 0 else _Trial(operation, [o.to(device) for o in operands], wanted)
    columns: list[list[torch.Tensor]] = [[] for _ in calls[0][0]]
    for operands, _ in calls:
        for column, operand in zip(columns, torch.broadcast_tensors(*operands), strict=True):
            column.append(operand.reshape(-1))
    flat = [torch.cat(column)[:_MOST] for column in columns]
    if not flat[0].numel():
        return None
    times = -(-_LEAST // flat[0].numel())
    flat = [t.repeat(times) for t in flat]
    return _Trial(operation, [t.to(device) for t in flat], _meant(operation, flat))


def _otherwise(trial: _Trial) -> list[_Trial]:
    """The same where other code is written for it."""
    more = _in_more_loops(trial)
    if _is_mask(trial):
        more.append(replace(trial, wanted=trial.wanted.float(), chosen=True))
    if trial.operation.name == "to_dtype":
        more.append(replace(trial, wanted=trial.wanted.to(trial.operands[0].dtype), back=trial.operands[0].dtype))
    return more


def _is_mask(trial: _Trial) -> bool:
    return trial.wanted.dtype == torch.bool and trial.operation.name not in ("reduction", "store")


def _in_more_loops(trial: _Trial) -> list[_Trial]:
    """A reduction along two loops that cannot be made one; a store of rows where it was one of elements."""
    if trial.operation.name == "store":
        at, value = trial.operands
        if at.numel() != value.numel() or max(at.numel(), trial.wanted.numel()) > _MOST:
            return []
        rows = value.reshape(-1, 1) * torch.arange(1, _ROW + 1, device=value.device).to(value.dtype)
        zeros = torch.zeros(*trial.wanted.shape, _ROW, dtype=value.dtype)
        wanted = zeros.index_put((at.reshape(-1).cpu(),), rows.cpu(), accumulate=True)
        return [_Trial(trial.operation, [at.reshape(-1), rows], wanted)]
    if trial.operation.name != "reduction" or len(trial.operands) != 1 or trial.operands[0].ndim != 2:
        return []
    count, length = trial.operands[0].shape
    inner = next((n for n in range(2, length) if length % n == 0), None)
    if inner is None:
        return []
    loops = trial.operands[0].view(count, length // inner, inner)
    apart = torch.cat([loops, loops[:, :, :1]], 2)[:, :, :inner]  # with a gap behind each row
    return [_Trial(trial.operation, [apart], trial.wanted.unsqueeze(-1))]


def _ordinary(names: Collection[str], device: str) -> list[_Trial]:
    """Operations on float32 values of ours."""
    from torch._inductor.virtualized import ops

    special = torch.tensor([0.0, 1.0, -1.0, 0.5, -1.5, 2.5, math.inf, -math.inf, math.nan, 20.0, -20.0])
    x = torch.cat([torch.linspace(-3, 3, _LEAST - len(special)), special])
    y = x.flip(0) * 0.7
    rows = torch.linspace(0.5, 1.5, 5 * 35).view(5, 35)
    rows = torch.cat([rows, -rows])
    first, second = (Operand(i, torch.float32) for i in range(2))
    wanted: list[tuple[Operation, list[torch.Tensor]]] = []
    wanted += [(Operation(n, (first,)), [x]) for n in _UNARY if n in names]
    wanted += [(Operation(n, (first, second)), [x, y]) for n in _BINARY if n in names]
    if "where" in names:
        wanted.append((Operation("where", (Operand(0, torch.bool), second, Operand(2, torch.float32))), [x > y, x, y]))
    if "masked" in names:
        body = functools.partial(ops.constant, 2.5, torch.float32)
        wanted.append((Operation("masked", (Operand(0, torch.bool), body, 1.5)), [x > y]))
    for kind in _REDUCTIONS if "reduction" in names else ():
        dtype = torch.int64 if kind.startswith("arg") else torch.float32
        wanted.append((Operation("reduction", (dtype, torch.float32, kind, first)), [rows]))
    alone = [_Trial(o, [t.to(device) for t in given], _meant(o, given)) for o, given in wanted]
    return [other for trial in alone for other in (trial, *_otherwise(trial))]


@functools.cache
def _library() -> torch.library.Library:
    """Operators of our own for each number of operands, whose last argument is the number of a trial."""
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    library = torch.library.Library("fxmorph", "FRAGMENT")
    for count in (1, 2, 3):
        operands = ", ".join(f"Tensor x{i}" for i in range(count))
        library.define(f"operation{count}({operands}, int number) -> Tensor")
        library.impl(
            f"operation{count}",
            lambda *args: _tried.by_number[args[-1]].wanted.to(args[0].device, copy=True),
            "CompositeExplicitAutograd",
        )

        def lowered(*args: Any) -> Any:
            trial = _tried.by_number[args[-1]]
            operation, dtype = trial.operation, trial.wanted.dtype
            if operation.name == "reduction":
                made = lowering.make_reduction(operation.arguments[2], override_return_dtype=dtype)
                return made(args[0], axis=list(range(1, len(args[0].get_size()))), keepdims=True)

            def inner(*loads: Any) -> Any:
                keywords = {k: _given(v, loads, ops) for k, v in operation.keywords}
                made = getattr(ops, operation.name)(*(_given(a, loads, ops) for a in operation.arguments), **keywords)
                if trial.back is not None:
                    return ops.to_dtype(made, trial.back)
                one, zero = (ops.constant(v, dtype) for v in (1.0, 0.0))
                return ops.where(made, one, zero) if trial.chosen else made

            return lowering.make_pointwise(inner, override_return_dtype=dtype)(*args[:-1])

        lowering.lowerings[getattr(torch.ops.fxmorph, f"operation{count}").default] = lowered
    return library


def _given(argument: Any, loads: Sequence[Any], ops: Any) -> Any:
    if not isinstance(argument, Operand):
        return argument
    return loads[argument.number] if argument.constant is None else ops.constant(argument.constant, argument.dtype)


def _alone_is_wrong(trial: _Trial, config: CompileConfig) -> bool:
    try:
        return bool(_wrong([trial], config))
    except COMPILER_EXCEPTIONS:
        return True


def _wrong(trials: Sequence[_Trial], config: CompileConfig) -> list[_Trial]:
    if not trials:
        return []
    _library()
    _tried.by_number = list(trials)

    def program(operands: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        made = []
        for number, (trial, given) in enumerate(zip(trials, operands, strict=True)):
            if trial.operation.name == "store":
                zeros = torch.zeros(trial.wanted.shape, dtype=trial.wanted.dtype, device=given[0].device)
                made.append(zeros.index_put((given[0],), given[1], accumulate=True))
            else:
                made.append(getattr(torch.ops.fxmorph, f"operation{len(given)}")(*given, number))
        return made

    with configured(config), torch.no_grad():
        made = compile_callable(program, config)([t.operands for t in trials])
    return [t for t, result in zip(trials, made, strict=True) if not _close(t, result.cpu())]


def _close(trial: _Trial, made: torch.Tensor) -> bool:
    wanted = trial.wanted
    if not wanted.is_floating_point():
        return torch.equal(wanted, made)
    a, b = made.double(), wanted.double()
    if not torch.allclose(a, b, TOLERANCE, TOLERANCE * 1e-3, equal_nan=True):
        return False
    zeros = (a == 0) & (b == 0)
    return trial.operation.name in _EITHER_ZERO or torch.equal(a[zeros].signbit(), b[zeros].signbit())


@contextlib.contextmanager
def operations_of_nodes() -> Iterator[dict[str, set[str]]]:
    """Names of the IR's operations by the FX node that they come from, of compiles inside."""
    from torch._inductor.scheduler import Scheduler

    found: dict[str, set[str]] = {}
    original = Scheduler.fuse_nodes

    @functools.wraps(original)
    def watched(self: Any, nodes: Any, *args: Any, **kwargs: Any) -> Any:
        for node in nodes:
            counts = getattr(getattr(node, "_body", None), "op_counts", ())
            for origin in getattr(getattr(node, "node", None), "origins", ()) or ():
                found.setdefault(origin.name, set()).update(counts)
        return original(self, nodes, *args, **kwargs)

    with mock.patch.object(Scheduler, "fuse_nodes", watched):
        yield found
