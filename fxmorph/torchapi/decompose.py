"""Decompositions of operators into simpler ones."""

from __future__ import annotations

import contextlib
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

#: Keys at which operators are taken apart where they are traced, before their gradients are.
_TRACED = (torch.DispatchKey.CompositeImplicitAutograd, torch.DispatchKey.Autograd)


def inductor_decompositions() -> dict[Any, Callable[..., Any]]:
    """The table that Inductor gives to AOTAutograd, overloads alone, by name."""
    from torch._inductor.decomposition import select_decomp_table

    table = {op: function for op, function in select_decomp_table().items() if isinstance(op, OpOverload)}
    return dict(sorted(table.items(), key=lambda item: str(item[0])))


def is_decomposed(overload: OpOverload) -> bool:
    """Whether :func:`inductor_decompositions` has it."""
    from torch._inductor.decomposition import select_decomp_table

    return overload in select_decomp_table()


def may_decline(overload: OpOverload) -> bool:
    """Whether the decomposition that Inductor has of it leaves some calls as they are, by its text."""
    from torch._inductor.decomposition import select_decomp_table

    function = inspect.unwrap(select_decomp_table()[overload])
    return "NotImplemented" in getattr(getattr(function, "__code__", None), "co_names", ())


def decomposed_gradient(function: str) -> str:
    """The operator that a function of autograd, such as ``GluBackward0``, is named after, where it is decomposed."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", function.partition("Backward")[0]).lower()
    found = _overload(f"aten.{name}_backward")
    return str(found) if found is not None and is_decomposed(found) else ""


def python_decomposition(name: str) -> bool:
    """Whether the operator of this name is taken apart in Python wherever it is traced, whatever the table says."""
    found = _overload(name)
    return found is not None and any(key in found.py_kernels for key in _TRACED)


def python_decompositions(name: str) -> list[str]:
    """Overloads of the operator that are: one that is called may be made of another one that is traced instead."""
    named = _overload(name)
    if named is None:
        return []
    packet = named.overloadpacket
    every = [str(getattr(packet, overload)) for overload in packet.overloads()]
    return [each for each in sorted(every, key=lambda each: each != str(named)) if python_decomposition(each)]


def _overload(name: str) -> OpOverload | None:
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace, None), packet, None), overload or "default", None)
    return found if isinstance(found, OpOverload) else None


@contextlib.contextmanager
def without_python_decomposition(name: str) -> Iterator[None]:
    """The operator of this name is not taken apart in Python where it is traced; nothing happens where it is not."""
    found = _overload(name)
    taken = {} if found is None else {key: found.py_kernels[key] for key in _TRACED if key in found.py_kernels}
    if found is None or not taken:
        yield
        return
    try:
        for key in taken:
            del found.py_kernels[key]
        found._dispatch_cache.clear()
        yield
    finally:
        found.py_kernels.update(taken)
        found._dispatch_cache.clear()


def decompose_calls(gm: fx.GraphModule, overload: Any, function: Callable[..., Any]) -> int:
    """Replace each call of ``overload`` by the calls that ``function`` makes; the number of calls replaced.

    Nothing else in the graph changes.  Calls that the decomposition declines (``NotImplemented``) stay.
    Nodes need ``meta['val']``.
    """
    done = 0
    for node in gm.graph.find_nodes(op="call_function", target=overload):
        leaves, form = tree_flatten((node.args, node.kwargs))
        feeds = list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, fx.Node)))

        def body(*values: Any, leaves: Any = leaves, form: Any = form, feeds: Any = feeds) -> Any:
            known = dict(zip(feeds, values, strict=True))
            given = [known[leaf] if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(given, form)
            made = function(*args, **kwargs)
            if made is NotImplemented:
                raise _Declined
            return made

        with contextlib.suppress(_Declined):
            _inline(gm, node, feeds, _traced(body, feeds))
            done += 1
    return done


class _Declined(Exception):
    """The decomposition is not for these arguments."""


def _traced(body: Callable[..., Any], feeds: Sequence[fx.Node]) -> fx.GraphModule:
    """The calls that ``body`` makes of what the nodes stand for."""
    values = [feed.meta["val"] for feed in feeds]
    mode = next((v.fake_mode for v in values if hasattr(v, "fake_mode")), contextlib.nullcontext())
    with torch.no_grad(), enable_python_dispatcher(), mode:
        return make_fx(body)(*values)


def _inline(gm: fx.GraphModule, node: fx.Node, feeds: Sequence[fx.Node], traced: fx.GraphModule) -> None:
    """Put the traced calls before ``node``, have its users read their results, and erase it."""
    *calls, output = traced.graph.nodes
    result = output.args[0]
    if not isinstance(result, fx.Node) and any(user.target is not operator.getitem for user in node.users):
        raise _Declined  # several results, handed on together
    seen: dict[fx.Node, fx.Node] = dict(zip((n for n in calls if n.op == "placeholder"), feeds, strict=True))
    with gm.graph.inserting_before(node):
        for call in calls:
            if call.op == "get_attr":
                name = f"{node.name}_{call.target}".replace(".", "_")
                setattr(gm, name, getattr(traced, str(call.target)))
                seen[call] = gm.graph.create_node("get_attr", name)
                seen[call].meta = dict(call.meta)
            elif call.op != "placeholder":
                seen[call] = gm.graph.node_copy(call, seen.__getitem__)
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(seen[result])
    else:
        for user in list(node.users):
            user.replace_all_uses_with(seen[result[user.args[1]]])
            gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def traced_to_aten(function: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """The function's graph of ATen's operators, with fake results in ``meta``; raises what the function raises."""
    traced: fx.GraphModule = make_fx(function, tracing_mode="fake")(*inputs)
    return traced


def traced_really(function: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """The same on real tensors, so that parameters of modules are constants of the graph."""
    with torch.no_grad():
        traced: fx.GraphModule = make_fx(function, tracing_mode="real")(*inputs)
    return traced
