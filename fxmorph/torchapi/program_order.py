"""The order that a program asks of the scheduler's nodes, by the memory that they read and write.

An access of memory comes after those before it in the program that it must not pass: a read after the last write, a
write after the last write and the reads since.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


def is_weak(dep: Any) -> bool:
    """Whether a dependency is of order alone."""
    return type(dep).__name__ == "WeakDep"


@dataclass
class _Memory:
    """What happened so far to one piece of memory that a buffer or an input stands for."""

    #: Name under which the scheduler knows what it holds now: that of the last write.
    current: str
    writer: Any = None
    readers: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Wanted:
    """``later`` must come after ``earlier``, which made ``buffer``, or read what ``later`` overwrites as ``writes``."""

    later: Any
    earlier: Any
    buffer: str
    writes: str = ""


class ProgramOrder:
    """The nodes of a scheduler in the order of the program, and what each does to memory."""

    def __init__(self, scheduler: Any, reads: Mapping[str, list[str]]) -> None:
        self.scheduler, self.reads = scheduler, reads
        self.memories: dict[str, _Memory] = {}
        self.roots: dict[str, str] = {}
        self.wanted: list[Wanted] = []
        self.users: list[tuple[Any, str]] = []
        for node in scheduler.nodes:
            self._follow(node)

    def _memory(self, name: str) -> _Memory:
        root = self.roots.setdefault(name, name)
        return self.memories.setdefault(root, _Memory(root))

    def _follow(self, node: Any) -> None:
        outputs = node.get_outputs()
        written = {alt: out for out in outputs for alt in out.get_mutations()}
        for name in self.reads[node.get_name()]:
            memory = self._memory(name)
            self.users.append((node, memory.current))
            if memory.writer is not None:
                self.wanted.append(Wanted(node, memory.writer, memory.current))
            if all(self._memory(alt) is not memory for alt in written):
                memory.readers.append(node)
        for alt, out in written.items():
            memory = self._memory(alt)
            self.users.append((node, memory.current))
            if memory.writer is not None:
                self.wanted.append(Wanted(node, memory.writer, memory.current))
            self.wanted += [Wanted(node, r, r.get_outputs()[0].get_name(), out.get_name())
                            for r in memory.readers if r is not node and r.get_outputs()]  # fmt: skip
            self.roots[out.get_name()] = self.roots[alt]
            memory.current, memory.writer, memory.readers = out.get_name(), node, []
        for out in outputs:
            if out.get_name() not in self.roots:
                self._memory(out.get_name()).writer = node

    # -- what the scheduler has of it

    def lost_orders(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Pairs of nodes that nothing keeps in their order."""
        ancestors = ancestors_of(self.scheduler.nodes, self.scheduler.name_to_buf)
        for wanted in self.wanted:
            later, earlier = wanted.later.get_name(), wanted.earlier.get_name()
            if earlier == later or earlier in ancestors[later]:
                continue
            for node in self.scheduler.nodes:
                if node.get_name() == later or later in ancestors[node.get_name()]:
                    ancestors[node.get_name()] |= {earlier, *ancestors[earlier]}
            said = "overwrites what it reads" if wanted.writes else f"made {wanted.buffer}"
            yield (
                f"{later} does not wait for {earlier}, which {said}",
                functools.partial(_add, wanted, self._root(wanted)),
            )

    def _root(self, wanted: Wanted) -> str:
        return self.roots[wanted.writes or wanted.buffer]

    def lost_users(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Buffers that do not know a node that reads or overwrites them, or that the program returns them."""
        from torch._inductor.dependencies import StarDep
        from torch._inductor.scheduler import NodeUser, OutputNode
        from torch._inductor.virtualized import V

        buffers = self.scheduler.name_to_buf
        for node, name in self.users:
            if name in buffers and all(u.get_name() != node.get_name() for u in buffers[name].users):
                user = NodeUser(node, False, False)
                yield f"{name} is not known to be used by {node.get_name()}", _adding(buffers[name], user)
        written = [r for r, memory in self.memories.items() if r in V.graph.graph_inputs and memory.writer is not None]
        for name in (*V.graph.get_output_names(), *written):
            current = self._memory(name).current
            if current in buffers and not any(isinstance(u.node, OutputNode) for u in buffers[current].users):
                user = NodeUser(OutputNode(StarDep(current)), False, False)
                yield f"{current} is not known to be returned", _adding(buffers[current], user)
        for name in written:
            if name not in V.graph.mutated_inputs:
                yield f"input {name} is not known to be written", functools.partial(_input_written, V.graph, name)


def _adding(buffer: Any, user: Any) -> Callable[[], None]:
    return lambda: buffer.set_users([*buffer.users, user])


def _input_written(graph: Any, name: str) -> None:
    graph.mutated_inputs.add(name)
    numbers = {n: i for i, n in enumerate(graph.graph_inputs)}
    graph.mutated_input_idxs = [numbers[n] for n in graph.mutated_inputs]


def _add(wanted: Wanted, root: str) -> None:
    """Order is all that a write needs of those that read before it."""
    from torch._inductor.dependencies import StarDep, WeakDep

    dep: Any = StarDep(wanted.buffer)
    if wanted.writes:
        wanted.later.scheduler.mutation_real_name.setdefault(wanted.writes, root)
        dep = WeakDep(wanted.buffer, mutating_buf=wanted.writes, is_fake=True)
    wanted.later.add_fake_dep(dep)


def ancestors_of(nodes: Any, buffers: Mapping[str, Any]) -> dict[str, set[str]]:
    """Names of all nodes that each node waits for, by its own."""
    parents = {
        n.get_name(): {buffers[d.name].defining_op_name() for d in n.unmet_dependencies if d.name in buffers}
        for n in nodes
    }
    found: dict[str, set[str]] = {}
    for name in parents:
        seen, left = set[str](), [*parents[name]]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += found.get(one, parents.get(one, ()))
        found[name] = seen
    return found
