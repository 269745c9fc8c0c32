"""Code generation of single operations of Inductor's IR, each compared with torch's own.

An operator of our own is lowered to one operation (``ops.exp``), so that nothing but the printing of
that operation stands between its compiled and its eager result.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any
from unittest import mock

import torch

from fxmorph.model import CompileConfig
from fxmorph.torchapi.compiling import COMPILER_EXCEPTIONS, compile_callable, configured

_UNARY = (
    "abs exp exp2 expm1 sqrt relu cos sin lgamma erf cosh sinh acos acosh asin asinh atan atanh erfc log10 log2 rsqrt "
    "log1p tan tanh sigmoid log floor trunc ceil neg reciprocal isnan isinf signbit square sign round"
).split()
_BINARY = ("minimum maximum atan2 copysign hypot fmod eq ne lt gt le ge add sub mul truediv pow where masked").split()
#: Kinds of ``ops.reduction``, over the last dimension.
_REDUCTIONS = "sum prod max min argmax argmin".split()
#: Operations that take more than the values of operands: what the operator means, and what it is lowered to.
_COMPOUND: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "where": (
        lambda x, y: torch.where(x > y, x, y * 2),
        lambda ops, x, y: ops.where(ops.gt(x, y), x, ops.add(y, y)),
    ),
    "masked": (
        lambda x, y: torch.where(x > y, 2.5, 1.5),
        lambda ops, x, y: ops.masked(ops.gt(x, y), lambda: ops.constant(2.5, torch.float32), 1.5),
    ),
}
_OF_TRUTH = ("isnan", "isinf", "signbit", "eq", "ne", "lt", "gt", "le", "ge")
#: Relative error beyond which an operation is wrong; vectorised approximations are far below.
TOLERANCE = 1e-3


def _meaning(name: str) -> Callable[..., torch.Tensor]:
    if name in _COMPOUND:
        return _COMPOUND[name][0]
    if name in _REDUCTIONS:
        reduction = getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
        return lambda x: reduction(x, -1)
    function: Callable[..., torch.Tensor] = getattr(torch, {"truediv": "true_divide"}.get(name, name))
    return function


@functools.cache
def _library() -> torch.library.Library:
    """Operators of our own for each number of operands, whose last argument names the operation."""
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    library = torch.library.Library("fxmorph", "FRAGMENT")
    for kind, operands in (("unary", "Tensor x"), ("binary", "Tensor x, Tensor y"), ("reduction", "Tensor x")):
        library.define(f"{kind}({operands}, str name) -> Tensor")
        library.impl(kind, lambda *args: _meaning(args[-1])(*args[:-1]), "CompositeExplicitAutograd")
        overload = getattr(torch.ops.fxmorph, kind).default

        def lowered(*args: Any) -> Any:
            if args[-1] in _REDUCTIONS:
                return lowering.make_reduction(args[-1], **_result(args[-1]))(args[0], axis=[-1])
            name = args[-1]
            operation = functools.partial(_COMPOUND[name][1], ops) if name in _COMPOUND else getattr(ops, name)
            made = lowering.make_pointwise(lambda *loads: operation(*loads), **_result(name))
            return made(*args[:-1])

        lowering.lowerings[overload] = lowered
    return library


def _result(name: str) -> dict[str, Any]:
    if name in ("argmax", "argmin"):
        return {"override_return_dtype": torch.int64}
    return {"override_return_dtype": torch.bool} if name in _OF_TRUTH else {}


def _values(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    special = torch.tensor([0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 20.0, -20.0])
    x = torch.cat([torch.linspace(-3, 3, 59), special]).to(device)
    return x, x.flip(0) * 0.7


def _rows(device: str) -> torch.Tensor:
    """Rows of positive numbers, and of negative ones."""
    rows = torch.linspace(0.5, 1.5, 5 * 35).view(5, 35).to(device)
    return torch.cat([rows, -rows])


def wrong_operations(names: Collection[str], config: CompileConfig, device: str = "cpu") -> list[str]:
    """Those operations of Inductor's IR whose generated float32 code is wrong, or does not compile, under ``config``.

    Operations that are not known here are left out; all kinds of ``reduction`` are tried.  Resets Dynamo.
    """
    names = {"masked" if n.startswith("masked") else n for n in names}
    tried = [n for n in (*_UNARY, *_BINARY) if n in names] + (_REDUCTIONS if "reduction" in names else [])
    try:
        wrong = _wrong(tried, config, device)
    except COMPILER_EXCEPTIONS:  # one of them; each alone says which
        wrong = [n for n in tried if _alone_is_wrong(n, config, device)]
    return [f"reduction({n})" if n in _REDUCTIONS else n for n in wrong]


def _alone_is_wrong(name: str, config: CompileConfig, device: str) -> bool:
    try:
        return bool(_wrong([name], config, device))
    except COMPILER_EXCEPTIONS:
        return True


def _wrong(tried: Sequence[str], config: CompileConfig, device: str) -> list[str]:
    if not tried:
        return []
    _library()

    def program(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor) -> list[torch.Tensor]:
        made = []
        for name in tried:
            if name in _REDUCTIONS:
                made.append(torch.ops.fxmorph.reduction(rows, name))
            elif name in _BINARY:
                made.append(torch.ops.fxmorph.binary(x, y, name))
            else:
                made.append(torch.ops.fxmorph.unary(x, name))
        return made

    values = (*_values(device), _rows(device))
    with configured(config), torch.no_grad():
        made = compile_callable(program, config)(*values)
        wanted = program(*values)
    return [n for n, a, b in zip(tried, made, wanted, strict=True) if not _close(a, b)]


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), TOLERANCE, TOLERANCE * 1e-3, equal_nan=True)


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
