"""Dependencies between the scheduler's nodes, found by us: which are lost on the way from a program to its kernels.

An access of memory comes after those before it in the program that it must not pass: a read after the last write, a
write after the last write and the reads since.  Only what is lost is said, and added; what is there besides stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fxmorph.torchapi.corrections import After, Correction


def _is_weak(dep: Any) -> bool:
    return type(dep).__name__ == "WeakDep"


def _is_manual(dep: Any) -> bool:
    """Of order, added by hand: no load or store says it."""
    return type(dep).__name__ in ("WeakDep", "StarDep")


# -- of a program ------------------------------------------------------------


@dataclass
class _Memory:
    """What happened so far to one piece of memory that a buffer or an input stands for."""

    #: Name under which the scheduler knows what it holds now: that of the last write.
    current: str
    writer: Any = None
    readers: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class _Wanted:
    """``later`` must come after ``earlier``, which made or read ``buffer``; ``writes``: the buffer that it overwrites as."""

    later: Any
    earlier: Any
    buffer: str
    writes: str = ""


def check_dependencies(scheduler: Any) -> After:
    """Each node comes after those whose memory it reads or overwrites, and buffers know who reads them."""
    reads = {n.get_name(): [d.name for d in n.read_writes.reads if not _is_weak(d)] for n in scheduler.nodes}

    def after(_: Any) -> Correction | None:
        program = _Program(scheduler, reads)
        lost = [*program.lost_orders(), *program.lost_users()]
        if not lost:
            return None

        def mend() -> None:
            for _, add in lost:
                add()

        return Correction("; ".join(said for said, _ in lost[:3]), mend)

    return after


class _Program:
    """The nodes of a scheduler in the order of the program, and what each does to memory."""

    def __init__(self, scheduler: Any, reads: Mapping[str, list[str]]) -> None:
        self.scheduler, self.reads = scheduler, reads
        self.memories: dict[str, _Memory] = {}
        self.roots: dict[str, str] = {}
        self.wanted: list[_Wanted] = []
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
                self.wanted.append(_Wanted(node, memory.writer, memory.current))
            if all(self._memory(alt) is not memory for alt in written):
                memory.readers.append(node)
        for alt, out in written.items():
            memory = self._memory(alt)
            self.users.append((node, memory.current))
            if memory.writer is not None:
                self.wanted.append(_Wanted(node, memory.writer, memory.current))
            self.wanted += [_Wanted(node, r, r.get_outputs()[0].get_name(), out.get_name())
                            for r in memory.readers if r is not node and r.get_outputs()]  # fmt: skip
            self.roots[out.get_name()] = self.roots[alt]
            memory.current, memory.writer, memory.readers = out.get_name(), node, []
        for out in outputs:
            if out.get_name() not in self.roots:
                self._memory(out.get_name()).writer = node

    # -- what the scheduler has of it

    def lost_orders(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Pairs of nodes that nothing keeps in their order."""
        ancestors = _ancestors(self.scheduler.nodes, self.scheduler.name_to_buf)
        for wanted in self.wanted:
            later, earlier = wanted.later.get_name(), wanted.earlier.get_name()
            if earlier == later or earlier in ancestors[later]:
                continue
            for node in self.scheduler.nodes:
                if node.get_name() == later or later in ancestors[node.get_name()]:
                    ancestors[node.get_name()] |= {earlier, *ancestors[earlier]}
            said = "overwrites what it reads" if wanted.writes else f"made {wanted.buffer}"
            yield f"{later} does not wait for {earlier}, which {said}", lambda w=wanted: _add(w, self._root(w))

    def _root(self, wanted: _Wanted) -> str:
        return self.roots[wanted.writes or wanted.buffer]

    def lost_users(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Buffers that do not know a node that reads or overwrites them, or that the program returns them."""
        from torch._inductor.scheduler import NodeUser, OutputNode
        from torch._inductor.dependencies import StarDep
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
                yield f"input {name} is not known to be written", lambda n=name: _input_written(V.graph, n)


def _adding(buffer: Any, user: Any) -> Callable[[], None]:
    return lambda: buffer.set_users([*buffer.users, user])


def _input_written(graph: Any, name: str) -> None:
    graph.mutated_inputs.add(name)
    numbers = {n: i for i, n in enumerate(graph.graph_inputs)}
    graph.mutated_input_idxs = [numbers[n] for n in graph.mutated_inputs]


def _add(wanted: _Wanted, root: str) -> None:
    """Order is all that a write needs of those that read before it."""
    from torch._inductor.dependencies import StarDep, WeakDep

    dep = StarDep(wanted.buffer)
    if wanted.writes:
        wanted.later.scheduler.mutation_real_name.setdefault(wanted.writes, root)
        dep = WeakDep(wanted.buffer, mutating_buf=wanted.writes, is_fake=True)
    wanted.later.add_fake_dep(dep)


def _ancestors(nodes: Any, buffers: Mapping[str, Any]) -> dict[str, set[str]]:
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


def check_ancestors(scheduler: Any) -> After:
    """Ancestors are all nodes that a node waits for, itself or by others."""

    def after(_: Any) -> Correction | None:
        wanted = _ancestors(scheduler.nodes, scheduler.name_to_buf)
        wrong = [n for n in scheduler.nodes if wanted[n.get_name()] - set(n.ancestors)]
        if not wrong:
            return None

        def mend() -> None:
            for node in wrong:
                node.ancestors = type(node.ancestors)(sorted(wanted[node.get_name()]))

        lost = sorted(wanted[wrong[0].get_name()] - set(wrong[0].ancestors))
        return Correction(f"{', '.join(lost)} are no ancestors of {wrong[0].get_name()}", mend)

    return after


# -- of a node that changes --------------------------------------------------


def check_order_kept(node: Any, *_: Any, **__: Any) -> After:
    """A node whose loops change waits for the same nodes as before."""
    before = [d for d in node.read_writes.reads if _is_manual(d)]

    def after(result: Any) -> Correction | None:
        kept = {d.name for d in node.read_writes.reads}
        lost = [d for d in before if d.name not in kept]
        if not lost:
            return None

        def mend() -> Any:
            for dep in lost:
                node.add_fake_dep(dep)
            return result

        return Correction(f"{node.get_name()} does not wait for {', '.join(d.name for d in lost)} any more", mend)

    return after


def check_pruned(node: Any, fused: Mapping[str, Any], buffers: Mapping[str, Any]) -> After:
    """Of order is dropped what lies within a fused node, and what another dependency on the same node keeps too."""

    def maker(dep: Any) -> Any:
        return fused[buffers[dep.name].defining_op_name()]

    before = list(node.unmet_dependencies)
    needed = {maker(d).get_name() for d in before if not _is_weak(d)}

    def dropped(dep: Any) -> bool:
        if not _is_weak(dep):
            return False
        again = maker(dep).get_name() in needed and node.scheduler.fusable_weak_dep(dep, maker(dep), node)
        return again or maker(dep) is node

    wanted = [d for d in before if not dropped(d)]

    def after(result: Any) -> Correction | None:
        lost = [d for d in wanted if d not in node.unmet_dependencies]
        if not lost:
            return None

        def mend() -> Any:
            node.set_read_writes(node.read_writes.with_read(type(node.unmet_dependencies)(lost)))
            node.unmet_dependencies = type(node.unmet_dependencies)(wanted)
            return result

        return Correction(f"{node.get_name()} does not wait for {', '.join(d.name for d in lost)} any more", mend)

    return after


def check_group(group: Any) -> After:
    """Fused nodes wait for what each of them waits for, and read and write what each does."""

    def after(result: Any) -> Correction | None:
        own = {b.get_name() for part in group.snodes for b in part.get_outputs()}
        writes = [d for part in group.snodes for d in part.read_writes.writes]
        reads = [d for part in group.snodes for d in part.read_writes.reads if d not in writes]
        unmet = [d for part in group.snodes for d in part.unmet_dependencies if d.name not in own and d not in writes]
        lost = [d for some, kept in ((writes, group.read_writes.writes), (reads, group.read_writes.reads),
                                     (unmet, group.unmet_dependencies)) for d in some if d not in kept]  # fmt: skip
        if not lost:
            return None

        def mend() -> Any:
            ordered = type(group.unmet_dependencies)
            group.read_writes.reads, group.read_writes.writes = ordered(reads), ordered(writes)
            group.unmet_dependencies = ordered(unmet)
            return result

        return Correction(f"of what {'+'.join(sorted(own))} are made of, {lost[0]} is lost", mend)

    return after


def check_group_place(group: Any, scheduler: Any, snodes: Any) -> After:
    """Fused nodes have the ancestors of each of them, and lie between the first and the last."""

    def after(result: Any) -> Correction | None:
        ancestors = {a for part in snodes for a in part.ancestors}
        place = min(part.min_order for part in snodes), max(part.max_order for part in snodes)
        if ancestors <= set(group.ancestors) and place == (group.min_order, group.max_order):
            return None

        def mend() -> Any:
            group.ancestors = type(snodes[0].ancestors)(sorted(ancestors))
            group.min_order, group.max_order = place
            return result

        return Correction(f"{group.get_name()} has not the ancestors and the place of its parts", mend)

    return after


# -- of the order at last ----------------------------------------------------


def check_last_usage(scheduler: Any) -> After:
    """No buffer is used for the last time before a node that uses it, or where the program returns it."""

    def after(result: Any) -> Correction | None:
        from torch._inductor.virtualized import V

        real, future, said = scheduler.mutation_real_name, set(V.graph.get_output_names()), ""
        wanted: list[tuple[Any, set[str]]] = []
        for node in reversed(scheduler.nodes):
            used = {real.get(name, name) for name in _used(node)}
            early = future & set(node.last_usage)
            said = said or (early and f"{', '.join(sorted(early))} is used after {node.get_name()}") or ""
            wanted.append((node, used - future))
            future |= used
        if not said:
            return None

        def mend() -> Any:
            for node, last in wanted:
                node.last_usage = type(node.last_usage)(sorted(last))
            return result

        return Correction(said, mend)

    return after


def _used(node: Any) -> set[str]:
    """Names of the buffers that a node uses, and of those whose memory they are views of."""
    from torch._inductor.virtualized import V

    reads_writes = node.read_writes
    left = [d.name for d in (*reads_writes.reads, *reads_writes.writes) if not getattr(d, "is_fake", False)]
    found: set[str] = set()
    while left:
        name = left.pop()
        buffer = None if name in found else V.graph.name_to_buffer.get(name)
        found.add(name)
        left += buffer.get_inputs_that_alias_output() if buffer is not None else ()
    return found
