"""Which functions of torch's compiler run in a compile, or while one unit of it does its work."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Collection, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from fxmorph.core.units import Stage
from fxmorph.model import CompileConfig
from fxmorph.torchapi.compiling import compile_callable, configured
from fxmorph.torchapi.raising_frames import HOME

#: Names below torch's folder, of files and of functions in them.
Function = tuple[str, str]
#: So many are told.
MOST = 10

_PATTERNS = "_inductor/pattern_matcher.py"
_GRAPHS = ("_inductor/fx_passes/", "_inductor/constant_folding.py", "_inductor/freezing", "fx/passes/", _PATTERNS)
_AOT = ("_functorch/", "_subclasses/functional_tensor.py", "_higher_order_ops/")
#: Where the code of a stage lies, what says most first.
_FILES: dict[Stage, tuple[str, ...]] = {
    **dict.fromkeys((Stage.PRE_GRAD, Stage.JOINT, Stage.FREEZING, Stage.POST_GRAD), _GRAPHS),
    **dict.fromkeys((Stage.AOT, Stage.FUNCTIONALIZATION, Stage.RUNTIME_WRAPPERS, Stage.PARTITIONER), _AOT),
    Stage.DECOMPOSITION: (
        "_inductor/decomposition.py", "_decomp/", "_refs/", "_prims/", "_prims_common/__init__.py",
    ),
    Stage.LOWERING: (
        "_inductor/lowering.py", "_inductor/kernel/", "_inductor/ir.py", "_inductor/index_propagation.py",
    ),
    Stage.SCHEDULER: (
        "_inductor/scheduler.py", "_inductor/memory.py", "_inductor/dependencies.py", "_inductor/codegen/",
    ),
    Stage.CODEGEN: (
        "_inductor/codegen/", "utils/_sympy/printers.py", "_inductor/sizevars.py", "_inductor/loop_body.py",
    ),
}  # fmt: skip


@contextlib.contextmanager
def functions_noted() -> Iterator[dict[Function, None]]:
    """The functions of torch that are called inside in this thread, in the order of their first calls.

    What a function defines in itself counts as the function.
    """
    codes: dict[CodeType, None] = {}

    def noted(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            codes.setdefault(frame.f_code)

    found: dict[Function, None] = {}
    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        yield found
    finally:
        sys.setprofile(before)
        for code in codes:
            if code.co_filename.startswith(HOME):
                found.setdefault((code.co_filename.removeprefix(HOME), code.co_qualname.partition(".<locals>")[0]))


def telling(run: Collection[Function], stage: Stage, ordinary: Sequence[Collection[Function]] = ()) -> tuple[str, ...]:
    """Those of the stage's own files, as ``torch._inductor.lowering.var_mean_helper_``.

    What runs in fewer ``ordinary`` compiles comes first, then what lies in the file that says more.
    """
    files = _FILES.get(stage, ())

    def rank(function: Function) -> tuple[int, int]:
        place = next(i for i, file in enumerate(files) if function[0].startswith(file))
        return sum(function in compile for compile in ordinary), place

    named = [f for f in run if f[0].startswith(files) and not f[1].rpartition(".")[2].startswith(("<", "__"))]
    ranks = {f: rank(f) for f in named}
    kept = [f for f in named if ranks[f][0] < len(ordinary) or not ordinary]
    return tuple(_dotted(f) for f in sorted(kept, key=ranks.__getitem__)[:MOST])


def _dotted(function: Function) -> str:
    file, name = function
    return ".".join(("torch", *file.removesuffix(".py").removesuffix("/__init__").split("/"), name))


@functools.cache
def ordinary_compiles() -> tuple[Collection[Function], ...]:
    """What runs when programs of everyday operators are compiled.  Resets Dynamo."""
    return tuple(_functions_of(fn) for fn in (_pointwise, _reduced, _moved))


def _functions_of(fn: Any) -> Collection[Function]:
    config = CompileConfig.make()
    with configured(config), functions_noted() as run:
        compile_callable(fn, config)(torch.ones(4, 35))
    return frozenset(run)


def _pointwise(x: torch.Tensor) -> torch.Tensor:
    return x.neg()


def _reduced(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sum(1) + 1


def _moved(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.t(), x.t().relu()]).reshape(-1)[3:]
