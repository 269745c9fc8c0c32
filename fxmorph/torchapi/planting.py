"""Faults planted in Inductor, to show that the judges see and blame them.

Each is a context manager; leaving it puts back what was there.  Plant before compiling, in the
process that compiles; compiled results of before stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, aten_packet

#: Modules whose globals are the graph passes, by stage.
PASS_MODULES = {
    "pre_grad": "torch._inductor.fx_passes.pre_grad",
    "joint_graph": "torch._inductor.fx_passes.joint_graph",
    "post_grad": "torch._inductor.fx_passes.post_grad",
    "quantization": "torch._inductor.fx_passes.quantization",
    "freezing": "torch._inductor.freezing",
    "compile_fx": "torch._inductor.compile_fx",
    "partitioner": "torch._functorch.partitioners",
}


def _packet(name: str) -> OpOverloadPacket:
    packet = aten_packet(name)
    if packet is None:
        raise ValueError(f"aten has no operator {name!r}")
    return packet


def _keys(packet: OpOverloadPacket) -> list[OpOverload | OpOverloadPacket]:
    return [packet, *(getattr(packet, name) for name in packet.overloads())]


@contextlib.contextmanager
def _replaced(table: dict[Any, Any], new: dict[Any, Any]) -> Iterator[None]:
    old = {key: table[key] for key in new if key in table}
    table.update(new)
    try:
        yield
    finally:
        for key in new:
            if key in old:
                table[key] = old[key]
            else:
                table.pop(key, None)


@contextlib.contextmanager
def planted_lowering(op_name: str, other_name: str) -> Iterator[None]:
    """Inductor lowers ``aten.<op_name>`` as it lowers ``aten.<other_name>`` (same arguments).

    A fault of code generation: backends up to ``aot_eager_decomp_partition`` are right, stage
    ``inductor`` is wrong.  The operator must not be decomposed before (``sin``, ``exp``, ``abs``).
    Raises ``ValueError`` where either has no lowering.
    """
    from torch._inductor import lowering

    other = {key.__name__.rpartition(".")[2]: lowering.lowerings.get(key) for key in _keys(_packet(other_name))}
    default = other.get("default")
    new = {
        key: other.get(key.__name__.rpartition(".")[2]) or default
        for key in _keys(_packet(op_name))
        if key in lowering.lowerings
    }
    if not new or default is None:
        raise ValueError(f"no lowering of {op_name if not new else other_name} in torch {torch.__version__}")
    with _replaced(lowering.lowerings, new):
        yield


@contextlib.contextmanager
def planted_decomposition(op_name: str, function: Callable[..., Any]) -> Iterator[None]:
    """``aten.<op_name>`` (every overload that has a decomposition, else ``default``) decomposes into ``function``.

    ``function`` takes the operator's arguments and is written in torch operations.  Stage
    ``decomposition`` is the first that is wrong.
    """
    from torch._inductor import decomposition

    packet = _packet(op_name)
    keys = [k for k in _keys(packet) if k in decomposition.decompositions] or [packet.default]
    clear: Any = getattr(decomposition.fast_random_decomps, "cache_clear", lambda: None)
    try:
        with _replaced(decomposition.decompositions, dict.fromkeys(keys, function)):
            clear()
            yield
    finally:
        clear()


@contextlib.contextmanager
def planted_pass(
    edit: Callable[[fx.Graph], object], name: str = "constant_fold_uniform_value", stage: str = "joint_graph"
) -> Iterator[None]:
    """After Inductor's own pass ``name`` has run, ``edit(graph)`` changes the ATen graph in place.

    ``stage`` is one of :data:`PASS_MODULES`; ``name`` a pass that is a global of that module and
    takes or gives a graph (module), as ``remove_noop_ops`` of ``post_grad``.  Stage ``inductor`` is the
    first that is wrong.  Raises ``ValueError`` where there is no such pass.
    """
    module: Any = importlib.import_module(PASS_MODULES[stage])
    original = getattr(module, name, None)
    if not callable(original):
        raise ValueError(f"torch {torch.__version__} has no pass {name!r} in {PASS_MODULES[stage]}")

    @functools.wraps(original)
    def edited(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        graph = next(w for w in (result, *args) if isinstance(w, (fx.Graph, fx.GraphModule)))
        edit(graph.graph if isinstance(graph, fx.GraphModule) else graph)
        return result

    setattr(module, name, edited)
    try:
        yield
    finally:
        setattr(module, name, original)
