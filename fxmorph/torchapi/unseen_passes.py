"""Functions over graphs that a stage of Inductor calls, whoever calls them: passes that no hook has a name for."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any
from unittest import mock

from torch import fx

from fxmorph.core.units import Stage

#: What runs a stage, in ``torch._inductor.compile_fx``.
_RUNS = {
    Stage.PRE_GRAD: "_recursive_pre_grad_passes",
    Stage.JOINT: "_recursive_joint_graph_passes",
    Stage.POST_GRAD: "_recursive_post_grad_passes",
}
STAGES = tuple(_RUNS)
#: Where passes are defined.
_HOMES = "torch._inductor."


@dataclass(frozen=True)
class GraphFunction:
    """A function of a module that was called with a graph; ``returns``: it gave one back."""

    module: str
    name: str
    returns: bool


@contextlib.contextmanager
def without_stages(*stages: Stage) -> Iterator[None]:
    """These stages leave their graphs as they come."""
    from torch._inductor import compile_fx

    with contextlib.ExitStack() as stack:
        for stage in stages:
            stack.enter_context(mock.patch.object(compile_fx, _RUNS[stage], lambda gm, *args, **kwargs: gm))
        yield


@contextlib.contextmanager
def graph_functions(stage: Stage) -> Iterator[list[GraphFunction]]:
    """Functions that the stage calls with a graph in compiles inside, the innermost first."""
    from torch._inductor import compile_fx

    found: list[GraphFunction] = []
    original = getattr(compile_fx, _RUNS[stage])

    def watch(frame: FrameType, event: str, result: Any) -> None:
        if event != "return" or not frame.f_globals.get("__name__", "").startswith(_HOMES):
            return
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        if any(isinstance(frame.f_locals.get(n), fx.Graph | fx.GraphModule) for n in names):
            made = isinstance(result, fx.Graph | fx.GraphModule)
            function = GraphFunction(frame.f_globals["__name__"], frame.f_code.co_name, made)
            if function not in found and callable(frame.f_globals.get(function.name)):
                found.append(function)

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        outer = sys.getprofile()
        sys.setprofile(watch)
        try:
            return original(*args, **kwargs)
        finally:
            sys.setprofile(outer)

    with mock.patch.object(compile_fx, original.__name__, watched):
        yield found


@contextlib.contextmanager
def without_graph_function(function: GraphFunction) -> Iterator[None]:
    """Every module that has the function under its name has one that does nothing."""
    original = getattr(sys.modules[function.module], function.name)
    with contextlib.ExitStack() as stack:
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(function.name) is original:
                stack.enter_context(mock.patch.object(module, function.name, _nothing(function.returns)))
        yield


def _nothing(returns: bool) -> Callable[..., Any]:
    def nothing(*args: Any, **kwargs: Any) -> Any:
        graphs = (a for a in (*args, *kwargs.values()) if isinstance(a, fx.Graph | fx.GraphModule))
        return next(graphs, None) if returns else None

    return nothing
