"""Functions over graphs that a stage of Inductor calls, whoever calls them: passes that no hook has a name for."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any
from unittest import mock

from torch import fx

from fxmorph.core.units import Stage

_COMPILE = "torch._inductor.compile_fx"
#: What runs a stage, by module and name; of the partitioner what makes two graphs of one.
_RUNS = {
    Stage.PRE_GRAD: (_COMPILE, "_recursive_pre_grad_passes"),
    Stage.JOINT: (_COMPILE, "_recursive_joint_graph_passes"),
    Stage.POST_GRAD: (_COMPILE, "_recursive_post_grad_passes"),
    Stage.PARTITIONER: ("torch._functorch.partitioners", "_extract_fwd_bwd_modules"),
}
#: Stages that hold nothing but passes.
STAGES = (Stage.PRE_GRAD, Stage.JOINT, Stage.POST_GRAD)
#: Where passes are defined.
_HOMES = ("torch._inductor.", "torch._functorch.")


@dataclass(frozen=True)
class GraphFunction:
    """A function of a module that was called with a graph; ``returns``: it gave one back.

    ``outermost``: no other such function called it, of those that were looked for.
    """

    module: str
    name: str
    returns: bool
    outermost: bool = True


@contextlib.contextmanager
def without_stages(*stages: Stage) -> Iterator[None]:
    """These stages leave their graphs as they come."""
    with contextlib.ExitStack() as stack:
        for module, name in (_RUNS[stage] for stage in stages):
            home = importlib.import_module(module)
            stack.enter_context(mock.patch.object(home, name, lambda gm, *args, **kwargs: gm))
        yield


@contextlib.contextmanager
def graph_functions(stage: Stage, within: str = "") -> Iterator[list[GraphFunction]]:
    """Functions that the stage calls with a graph in compiles inside, the innermost first.

    ``within``: those alone that a function of this name calls, itself or by way of others.
    """
    module, name = _RUNS[stage]
    home = importlib.import_module(module)
    found: list[GraphFunction] = []
    original = getattr(home, name)

    def watch(frame: FrameType, event: str, result: Any) -> None:
        if event != "return" or not _takes_graph(frame):
            return
        module, name = frame.f_globals["__name__"], frame.f_code.co_name
        # What tells something else of a graph none can do without.
        if not callable(frame.f_globals.get(name)) or not isinstance(result, fx.Graph | fx.GraphModule | int | None):
            return
        if any((f.module, f.name) == (module, name) for f in found):
            return
        callers = _callers(frame, within)
        if callers is not None:
            made = isinstance(result, fx.Graph | fx.GraphModule)
            found.append(GraphFunction(module, name, made, not any(map(_takes_graph, callers))))

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        outer = sys.getprofile()
        sys.setprofile(watch)
        try:
            return original(*args, **kwargs)
        finally:
            sys.setprofile(outer)

    with mock.patch.object(home, name, watched):
        yield found


def _takes_graph(frame: FrameType) -> bool:
    """Whether the frame is a call, with a graph, of a function of one of the modules that hold passes."""
    if not frame.f_globals.get("__name__", "").startswith(_HOMES):
        return False
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return any(isinstance(frame.f_locals.get(n), fx.Graph | fx.GraphModule) for n in names)


def _callers(frame: FrameType, name: str) -> list[FrameType] | None:
    """Callers of a frame below that of the function ``name``; None where it is not among them, all where it is ""."""
    callers: list[FrameType] = []
    outer = frame.f_back
    while outer is not None and outer.f_code.co_name != name:
        callers.append(outer)
        outer = outer.f_back
    return callers if outer is not None or not name else None


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
