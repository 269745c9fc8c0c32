"""Passes over the graph: fewer outputs, fewer calls, fewer inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from fxmorph.programs.graph import calls, copy_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.driver import Reduction
from fxmorph.triage.reduce.order import output_node, outputs

#: What an input is replaced by where a number will do.
LITERALS = (0, 1, 2)


def fewer_outputs(search: Reduction) -> None:
    """One output alone, else without one after the other."""
    count = len(outputs(search.best.graph))
    if count > 1 and any(search.attempt(returning(search.best, {i})) for i in range(count)):
        return
    i = 0
    while i < len(outputs(search.best.graph)) > 1:
        kept = set(range(len(outputs(search.best.graph)))) - {i}
        i += not search.attempt(returning(search.best, kept))


def fewer_calls(search: Reduction) -> None:
    """Chunks of calls replaced by inputs that hold what they computed, the largest chunks first (ddmin)."""
    size = max(search.best.nodes // 2, 1)
    while size and not search.spent:
        start = 0
        while start < search.best.nodes and not search.spent:
            chunk = {n.name for n in calls(search.best.graph)[start : start + size]}
            made = _without(search.best, chunk)
            if made is None or not search.attempt(made):
                start += size
        size //= 2


def calls_by_operands(search: Reduction) -> None:
    """Each call replaced by one of the tensors that it reads, so that memory stays shared as it was."""
    for name in [n.name for n in calls(search.best.graph)]:
        for made in _by_operands(search.best, name):
            if search.attempt(made):
                break


def calls_by_ancestors(search: Reduction) -> None:
    """Each call replaced by a tensor of its shape that it comes from, the earliest first, with what lies between."""
    for name in [n.name for n in calls(search.best.graph)]:
        for made in _by_ancestors(search.best, name):
            if search.attempt(made):
                break


def fewer_modes(search: Reduction) -> None:
    """Without calls that switch gradients, autocast and the like: all of them, else two that follow each other."""
    count = len(_switching(search.best))
    for size, first in [(count, 0), *((2, i) for i in range(count - 1))] if count else []:
        made = _erased(search.best, _switching(search.best)[first : first + size])
        if made is not None:
            search.attempt(made)


def numbers_for_inputs(search: Reduction) -> None:
    """Each input replaced by a number."""
    for name in [n.name for n in search.best.holders]:
        for number in LITERALS:
            holder = next((n for n in search.best.holders if n.name == name), None)
            if holder is None or any(u.op == "call_method" and u.args[0] is holder for u in holder.users):
                break
            if search.attempt(_with_number(search.best, name, number)):
                break


def fewer_inputs(search: Reduction) -> None:
    """Drop inputs that nothing reads."""
    graph = copy_graph(search.best.graph)
    unused = [n for n in graph.nodes if n.op == "placeholder" and not n.users]
    if unused:
        search.attempt(_dropping(search.best, graph, unused))


# -- editing -------------------------------------------------------------------


def returning(program: Candidate, kept: Collection[int]) -> Candidate:
    """The program with only some of its outputs, and without what then nothing needs."""
    graph = copy_graph(program.graph)
    output_node(graph).args = (tuple(v for i, v in enumerate(outputs(graph)) if i in kept),)
    return _swept(program, graph)


def _swept(program: Candidate, graph: fx.Graph) -> Candidate:
    """Without calls that nothing reads and that wrote and switched nothing in ``program``, and without inputs that
    nothing reads.
    """
    acting = {*(k for k, _ in program.profile.writes), *program.profile.switches}
    kept = {n.name for n, k in program.profile.order.items() if k in acting}
    for node in reversed(calls(graph)):
        if not node.users and node.name not in kept:
            graph.erase_node(node)
    unused = [n for n in graph.nodes if n.op == "placeholder" and not n.users]
    return _dropping(program, graph, unused)


def _dropping(program: Candidate, graph: fx.Graph, unused: Collection[fx.Node]) -> Candidate:
    """``graph``, an edited copy of the program's, without these placeholders and their values."""
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    values = [v for n, v in zip(holders, program.inputs.rebuild(), strict=True) if n not in unused]
    for node in unused:
        graph.erase_node(node)
    return replace(program, graph=graph, inputs=InputSet.snapshot(values))


def _without(program: Candidate, chunk: set[str]) -> Candidate | None:
    """The chunk's values given as inputs; None where they cannot be."""
    seen = program.profile
    original = {n.name: n for n in program.graph.nodes}
    graph = copy_graph(program.graph)
    _move_outputs(graph, chunk)
    made: list[Any] = []
    last = next((n for n in reversed(graph.nodes) if n.op == "placeholder"), None)
    for node in [n for n in graph.nodes if n.name in chunk]:
        users = [u for u in node.users if u.name not in chunk]
        if not users:
            continue
        if original[node.name] not in seen.values:  # never run: something before it raises
            return None
        value = seen.read_by([original[u.name] for u in users], original[node.name])
        if not isinstance(value, (torch.Tensor, int, float)):
            return None
        if isinstance(value, torch.Tensor):
            value = value.clone(memory_format=torch.preserve_format)
            if value.is_floating_point() and seen.specs[original[node.name]].requires_grad:
                value.requires_grad_(True)
        with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
            last = graph.create_node("placeholder", f"{node.name}_in", name=f"{node.name}_in")
        for user in users:
            user.replace_input_with(node, last)
        made.append(value)
    for node in reversed([n for n in graph.nodes if n.name in chunk]):
        if node.users:
            return None
        graph.erase_node(node)
    if not calls(graph):
        return None
    inputs = InputSet.snapshot([*program.inputs.rebuild(), *made])
    extended = replace(program, graph=graph, inputs=inputs)
    extended.__dict__["profile"] = seen  # who wrote is known of the calls that stay
    return _swept(extended, graph)


def _switching(program: Candidate) -> list[str]:
    switches = set(program.profile.switches)
    return [n.name for n, k in program.profile.order.items() if k in switches]


def _erased(program: Candidate, names: Collection[str]) -> Candidate | None:
    """Without these calls; None where others use them."""
    graph = copy_graph(program.graph)
    for node in reversed([n for n in graph.nodes if n.name in names]):
        if node.users:
            return None
        graph.erase_node(node)
    return replace(program, graph=graph)


def _move_outputs(graph: fx.Graph, chunk: set[str]) -> None:
    """Where the chunk computes outputs, what it reads is returned in their place."""
    output = output_node(graph)
    listed = outputs(graph)
    if not any(isinstance(v, fx.Node) and v.name in chunk for v in listed):
        return
    feeds = [f for n in graph.nodes if n.name in chunk for f in n.all_input_nodes]
    kept = [v for v in listed if not (isinstance(v, fx.Node) and v.name in chunk)]
    moved = [f for f in feeds if f.name not in chunk and f.op != "placeholder"]
    output.args = (tuple(dict.fromkeys([*kept, *moved])),)


def _by_operands(program: Candidate, name: str) -> Iterator[Candidate]:
    found = next((n for n in calls(program.graph) if n.name == name), None)
    if found is not None:
        yield from (_bridged(program, found, operand, ()) for operand in _operands(program, found))


def _operands(program: Candidate, node: fx.Node) -> Iterator[fx.Node]:
    """The tensors that a call reads; what a part of a tuple was computed from, for the tuple."""
    for operand in node.all_input_nodes:
        yield from [operand] if operand in program.profile.specs else operand.all_input_nodes


def _by_ancestors(program: Candidate, name: str) -> Iterator[Candidate]:
    found = next((n for n in calls(program.graph) if n.name == name), None)
    specs = program.profile.specs
    if found is None or found not in specs:
        return
    above: dict[fx.Node, None] = dict.fromkeys(found.all_input_nodes)
    for node in (seen := list(above)):  # grows on the way
        seen.extend(n for n in node.all_input_nodes if n not in above)
        above.update(dict.fromkeys(node.all_input_nodes))
    tried = set(_operands(program, found))
    for ancestor in program.graph.nodes:
        if ancestor not in above or ancestor not in specs or ancestor in tried:
            continue
        if specs[ancestor].shape == specs[found].shape:
            yield _bridged(program, found, ancestor, _below(ancestor) & set(above))


def _below(node: fx.Node) -> set[fx.Node]:
    """What depends on the node."""
    seen = list(node.users)
    for user in seen:
        seen.extend(u for u in user.users if u not in seen)
    return set(seen)


def _bridged(program: Candidate, node: fx.Node, source: fx.Node, between: Collection[fx.Node]) -> Candidate:
    """What reads the call ``node`` reads ``source``; those ``between`` that nothing reads then are left out."""
    graph = copy_graph(program.graph)
    named = {n.name: n for n in graph.nodes}
    named[node.name].replace_all_uses_with(named[source.name])
    graph.erase_node(named[node.name])
    for name in [n.name for n in reversed(program.graph.nodes) if n in between]:
        if not named[name].users:
            graph.erase_node(named[name])
    return _swept(program, graph)


def _with_number(program: Candidate, name: str, number: int) -> Candidate:
    graph = copy_graph(program.graph)
    holder = next(n for n in graph.nodes if n.name == name)
    for user in list(holder.users):
        user.args = fx.node.map_arg(user.args, lambda n: number if n is holder else n)
        user.kwargs = fx.node.map_arg(user.kwargs, lambda n: number if n is holder else n)
    return _dropping(program, graph, [holder])
