"""Making a finding smaller while it stays the same finding.

A candidate is kept when its judgement shows at least one of the accused kinds again.  Order
of attempts: fewer rewrites, fewer outputs, fewer nodes (chunks replaced by inputs that carry
the values they had, largest first: ddmin, Zeller 2002), fewer inputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.graph import Unprintable, calls, copy_graph, print_graph
from fxmorph.inputs import InputSet, Unsupported
from fxmorph.rewrite import Inapplicable, profile

#: Whether a graph with these inputs still shows the finding.
StillThere = Callable[[fx.Graph, InputSet], bool]


@dataclass
class Reduced:
    """A smaller program; ``tests`` is how many candidates were judged."""

    graph: fx.Graph
    inputs: InputSet
    tests: int = 0


class Reducer:
    """Greedy reduction of one graph under a CPU budget in seconds."""

    def __init__(
        self, graph: fx.Graph, inputs: InputSet, still: StillThere, seconds: float, no_grad: bool = False
    ) -> None:
        self.best = Reduced(copy_graph(graph), inputs)
        self._still = still
        self._no_grad = no_grad
        self._until = time.process_time() + seconds

    @property
    def spent(self) -> bool:
        return time.process_time() > self._until

    def run(self) -> Reduced:
        """Until nothing more goes or the budget is spent."""
        self._outputs()
        before = None
        while before != len(self.best.graph.nodes) and not self.spent:
            before = len(self.best.graph.nodes)
            self._nodes()
            self._inputs()
        return self.best

    def _try(self, graph: fx.Graph, inputs: InputSet) -> bool:
        if self.spent:
            return False
        self.best.tests += 1
        try:
            graph.lint()
            print_graph(graph)
            if not self._still(graph, inputs):
                return False
        except (Unprintable, Unsupported, Inapplicable, RuntimeError, TypeError, ValueError):
            return False
        self.best = Reduced(graph, inputs, self.best.tests)
        return True

    def _outputs(self) -> None:
        """Keep as few outputs as possible."""
        output = _output(self.best.graph)
        kept = list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else []
        for value in list(kept):
            if len(kept) < 2:
                break
            smaller = [v for v in kept if v is not value]
            graph = copy_graph(self.best.graph)
            names = {n.name: n for n in graph.nodes}
            _output(graph).args = (tuple(names[v.name] if isinstance(v, fx.Node) else v for v in smaller),)
            if self._try(self._swept(graph), self.best.inputs):
                names = {n.name: n for n in self.best.graph.nodes}
                kept = [names[v.name] if isinstance(v, fx.Node) else v for v in smaller]

    def _nodes(self) -> None:
        """Replace chunks of nodes by inputs, halving the chunk size."""
        size = max(len(calls(self.best.graph)) // 2, 1)
        while size >= 1 and not self.spent:
            start = 0
            while not self.spent:
                nodes = calls(self.best.graph)
                if start >= len(nodes):
                    break
                chunk = {n.name for n in nodes[start : start + size]}
                made = self._without(chunk)
                if made is None or not self._try(*made):
                    start += size
            size //= 2

    def _without(self, chunk: set[str]) -> tuple[fx.Graph, InputSet] | None:
        """The graph with the chunk's values given as inputs; None where that cannot be."""
        graph = copy_graph(self.best.graph)
        with torch.set_grad_enabled(not self._no_grad):
            seen = profile(self.best.graph, self.best.inputs)
        values = {n.name: v for n, v in seen.values.items()}
        made: list[object] = []
        last = next((n for n in reversed(graph.nodes) if n.op == "placeholder"), None)
        self._move_outputs(graph, chunk)
        needs_grad = {n.name for n, s in seen.specs.items() if s.requires_grad}
        for node in [n for n in graph.nodes if n.name in chunk]:
            users = [u for u in node.users if u.name not in chunk]
            if not users:
                continue
            value = values.get(node.name)
            if not isinstance(value, (torch.Tensor, int, float)):
                return None
            first = next(iter(graph.nodes))
            with graph.inserting_after(last) if last is not None else graph.inserting_before(first):
                new = graph.create_node("placeholder", f"{node.name}_in", name=f"{node.name}_in")
            for user in users:
                user.replace_input_with(node, new)
            last = new
            if isinstance(value, torch.Tensor) and node.name in needs_grad and value.is_floating_point():
                value = value.clone(memory_format=torch.preserve_format).requires_grad_(True)
            made.append(value)
        for node in reversed([n for n in graph.nodes if n.name in chunk]):
            if node.users:
                return None
            graph.erase_node(node)
        inputs = InputSet.snapshot([*self.best.inputs.rebuild(), *made])
        if not calls(graph):
            return None
        return graph, inputs

    def _swept(self, graph: fx.Graph) -> fx.Graph:
        """The graph without calls that nothing reads and that write nothing."""
        with torch.set_grad_enabled(not self._no_grad):
            seen = profile(graph, self.best.inputs)
        writers = {k for k, _ in seen.writes}
        keep = {n.name for n, k in seen.order.items() if k in writers}
        for node in reversed(calls(graph)):
            if not node.users and node.name not in keep:
                graph.erase_node(node)
        return graph

    def _move_outputs(self, graph: fx.Graph, chunk: set[str]) -> None:
        """Where the chunk computes outputs, what it reads is returned in their place."""
        output = _output(graph)
        listed = _listed(output)
        if not any(isinstance(v, fx.Node) and v.name in chunk for v in listed):
            return
        feeds = [f for n in graph.nodes if n.name in chunk for f in n.all_input_nodes]
        kept = [v for v in listed if not (isinstance(v, fx.Node) and v.name in chunk)]
        moved = [f for f in feeds if f.name not in chunk and f.op != "placeholder"]
        output.args = (tuple(dict.fromkeys([*kept, *moved])),)

    def _inputs(self) -> None:
        """Drop inputs that nothing reads."""
        graph = copy_graph(self.best.graph)
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        unused = [i for i, n in enumerate(holders) if not n.users]
        if not unused:
            return
        for i in unused:
            graph.erase_node(holders[i])
        values = [v for i, v in enumerate(self.best.inputs.rebuild()) if i not in unused]
        self._try(graph, InputSet.snapshot(values))


def _output(graph: fx.Graph) -> fx.Node:
    return next(n for n in reversed(graph.nodes) if n.op == "output")


def _listed(output: fx.Node) -> list[Any]:
    return list(output.args[0]) if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
