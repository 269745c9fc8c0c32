"""Partitioners of our own, plain ones: where a finding goes with one of them, torch's is to blame.

The two extremes leave nothing to choose: all that can be computed again is, or nothing is.  Between them stand
torch's own partitioner with one of its two halves, the choice and the cutting, done by us.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch.utils._ordered_set import OrderedSet

from fxmorph.torchapi.dispatch import OpOverload, is_random, schema_of

#: The partitioner that Inductor calls, and its parts that can be done by us.
MIN_CUT = "min_cut_rematerialization_partition"
CHOICE = "choose_saved_values_set"
CUTTING = "_extract_fwd_bwd_modules"
#: What says which nodes either pass needs, before anything is chosen.
CLASSES = "classify_nodes"
#: What draws random numbers of checkpointed regions again, and what decides whether it has to.
RNG, RNG_NOTICE = "functionalize_rng_ops", "has_recomputable_rng_ops"


@contextlib.contextmanager
def nothing_saved() -> Iterator[None]:
    """Forward and backward both run the whole joint graph, and only inputs are saved."""
    with _partitioning(lambda joint: [n for n in _primals(joint.graph) if _is_tensor(n)]):
        yield


@contextlib.contextmanager
def everything_saved() -> Iterator[None]:
    """What the forward pass computed and the backward pass reads is saved, and nothing is computed again."""
    with _partitioning(lambda joint: _read_later(joint.graph)):
        yield


@contextlib.contextmanager
def plain_choice() -> Iterator[None]:
    """torch's partitioner saves what the backward pass reads, whatever it would have chosen."""
    from torch._functorch import partitioners

    with mock.patch.object(partitioners, CHOICE, lambda graph, *args, **kwargs: _read_later(graph)):
        yield


@contextlib.contextmanager
def plain_cutting() -> Iterator[None]:
    """torch's partitioner chooses what is saved, and the joint graph is cut there by us."""
    from torch._functorch import partitioners

    def cut(joint: fx.GraphModule, saved: Sequence[fx.Node], *_: Any, num_fwd_outputs: int, **__: Any) -> Any:
        return _cut(joint, saved, num_fwd_outputs)

    with mock.patch.object(partitioners, CUTTING, cut):
        yield


@contextlib.contextmanager
def plain_classes() -> Iterator[None]:
    """Which nodes the forward pass needs, and which the backward one, is decided by us."""
    from torch._functorch import partitioners

    def classes(joint: fx.GraphModule, static: Sequence[int], num_fwd_outputs: int, *_: Any, **__: Any) -> Any:
        graph, late, primals = joint.graph, _of_backward(joint.graph), _primals(joint.graph)
        needed = {*primals, *(n for n in _results(graph)[:num_fwd_outputs] if isinstance(n, fx.Node))}
        for node in reversed(graph.nodes):
            if node in needed:
                needed.update(node.all_input_nodes)
        gradients = {n for n in _results(graph)[num_fwd_outputs:] if isinstance(n, fx.Node)}
        # The results of both passes are those of one node, which hangs on gradients that come in.
        late |= {node for node in graph.nodes if node.op == "output" and any(n in late for n in node.all_input_nodes)}
        forward = [n for n in graph.nodes if n in needed]
        own = [n for n in primals if n.name.startswith("primals")]
        return partitioners.NodeInfo(
            primals,
            OrderedSet(forward),
            OrderedSet(n for n in graph.nodes if n in late or n in gradients),
            OrderedSet(n for n in graph.nodes if n in late),
            OrderedSet(n for n in graph.nodes if n not in needed and n not in late and n not in gradients),
            {node: place for place, node in enumerate(forward)},
            OrderedSet(n for place, n in enumerate(own) if place in static),
        )

    with mock.patch.object(partitioners, CLASSES, classes):
        yield


@contextlib.contextmanager
def random_saved() -> Iterator[None]:
    """torch's partitioner draws no random number again, whatever checkpoints want."""
    from torch._inductor import compile_fx
    from torch.utils.checkpoint import CheckpointPolicy

    original = getattr(compile_fx, MIN_CUT)

    def partition(joint: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        for node in filter(_draws, joint.graph.nodes):
            for drawn in (node, *(user for user in node.users if user.target is operator.getitem)):
                drawn.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return original(joint, *args, **kwargs)

    with mock.patch.object(compile_fx, MIN_CUT, partition):
        yield


@contextlib.contextmanager
def plain_notice_of_random() -> Iterator[None]:
    """Whether random numbers are to be drawn again is decided by us."""
    from torch._functorch import partitioners

    def notice(joint: fx.GraphModule) -> bool:
        return any(partitioners.must_recompute(node) and _draws(node) for node in joint.graph.nodes)

    with mock.patch.object(partitioners, RNG_NOTICE, notice):
        yield


def _draws(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and is_random(node.target, node.args, node.kwargs)


@contextlib.contextmanager
def default_partitioner() -> Iterator[None]:
    """Inductor partitions by ``default_partition``, which computes less again."""
    from torch._functorch import partitioners
    from torch._inductor import compile_fx

    def partition(joint: fx.GraphModule, inputs: Any, *, compiler: str = "", **kwargs: Any) -> Any:
        return partitioners.default_partition(joint, inputs, **kwargs)

    with mock.patch.object(compile_fx, MIN_CUT, partition):
        yield


@contextlib.contextmanager
def _partitioning(choose: Callable[[fx.GraphModule], Sequence[fx.Node]]) -> Iterator[None]:
    from torch._inductor import compile_fx

    def partition(joint: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_: Any) -> Any:
        return _cut(joint, choose(joint), num_fwd_outputs)

    with mock.patch.object(compile_fx, MIN_CUT, partition):
        yield


def _holders(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if n.op == "placeholder"]


def _is_tangent(node: fx.Node) -> bool:
    return node.name.startswith("tangents")


def _primals(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in _holders(graph) if not _is_tangent(n)]


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _writes(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


def _of_backward(graph: fx.Graph) -> set[fx.Node]:
    """What hangs on the gradients that come in."""
    found = {n for n in _holders(graph) if _is_tangent(n)}
    for node in graph.nodes:
        late = node.meta.get("partitioner_tag") == "must_be_in_backward"
        if node.op != "output" and (late or any(n in found for n in node.all_input_nodes)):
            found.add(node)
    return found


def _results(graph: fx.Graph) -> list[Any]:
    return list(next(n for n in reversed(graph.nodes) if n.op == "output").args[0])


def _read_later(graph: fx.Graph) -> list[fx.Node]:
    """What the forward pass computes and the backward pass, or a gradient as it is, reads; in order."""
    late = _of_backward(graph)
    gradients = {n for n in _results(graph)[_forward_results(graph) :] if isinstance(n, fx.Node)}
    early = [n for n in graph.nodes if n not in late and n.op != "output"]
    return [n for n in early if n in gradients or any(u in late for u in n.users)]


def _forward_results(graph: fx.Graph) -> int:
    """How many results are of the forward pass: there is a gradient for each input."""
    return len(_results(graph)) - len(_primals(graph))


def _cut(joint: fx.GraphModule, saved: Sequence[fx.Node], forward_results: int) -> tuple[fx.GraphModule, ...]:
    """Forward and backward graph.  Only the forward pass writes, and sizes go before tensors in the backward one."""
    graph, late = joint.graph, _of_backward(joint.graph)
    primals, results = _primals(graph), _results(graph)
    numbers = [n for n in dict.fromkeys([*primals, *saved]) if not _is_tensor(n)]
    tensors = [n for n in dict.fromkeys(saved) if n not in numbers]
    early = [n for n in graph.nodes if n not in late]
    again = [n for n in graph.nodes if n in late or not _writes(n)]
    forward = _part(joint, primals, [*results[:forward_results], *tensors, *numbers], early)
    tangents = [n for n in _holders(graph) if _is_tangent(n)]
    return forward, _part(joint, [*numbers, *tensors, *tangents], results[forward_results:], again)


def _part(
    joint: fx.GraphModule, inputs: Iterable[fx.Node], outputs: Sequence[Any], nodes: Iterable[fx.Node]
) -> fx.GraphModule:
    """Those of the calls ``nodes`` that ``outputs`` need, as a function of ``inputs``."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in inputs:
        made[node] = graph.placeholder(node.name)
        made[node].meta = dict(node.meta)
    for node in nodes:
        known = node in made or node.op in ("placeholder", "output")
        if not known and all(n in made for n in node.all_input_nodes):
            made[node] = graph.node_copy(node, lambda n: made[n])
    graph.output(fx.node.map_arg(tuple(outputs), lambda n: made[n]))
    graph.eliminate_dead_code()
    return fx.GraphModule(joint, graph)
