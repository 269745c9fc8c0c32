"""Dependencies of the scheduler's nodes, found by us: which are lost on the way from a program to its kernels.

Only what is lost is said, and added; what is there besides stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fxmorph.torchapi.corrections import After, Correction
from fxmorph.torchapi.program_order import ProgramOrder, ancestors_of, is_weak


def _is_manual(dep: Any) -> bool:
    """Of order, added by hand: no load or store says it."""
    return type(dep).__name__ in ("WeakDep", "StarDep")


# -- of a program ------------------------------------------------------------


def check_dependencies(scheduler: Any) -> After:
    """Each node comes after those whose memory it reads or overwrites, and buffers know who reads them."""
    reads = {n.get_name(): [d.name for d in n.read_writes.reads if not is_weak(d)] for n in scheduler.nodes}

    def after(_: Any) -> Correction | None:
        program = ProgramOrder(scheduler, reads)
        lost = [*program.lost_orders(), *program.lost_users()]
        if not lost:
            return None

        def mend() -> None:
            for _, add in lost:
                add()

        return Correction("; ".join(said for said, _ in lost[:3]), mend)

    return after


def check_ancestors(scheduler: Any) -> After:
    """Ancestors are all nodes that a node waits for, itself or by others."""

    def after(_: Any) -> Correction | None:
        wanted = ancestors_of(scheduler.nodes, scheduler.name_to_buf)
        wrong = [n for n in scheduler.nodes if wanted[n.get_name()] - set(n.ancestors)]
        if not wrong:
            return None

        def mend() -> None:
            for node in wrong:
                node.ancestors = type(node.ancestors)(sorted(wanted[node.get_name()]))

        lost = sorted(wanted[wrong[0].get_name()] - set(wrong[0].ancestors))
        return Correction(f"{', '.join(lost)} are no ancestors of {wrong[0].get_name()}", mend)

    return after


# -- of one dependency, and of sets of them ----------------------------------


def check_renamed(dep: Any, renames: Mapping[str, str]) -> After:
    """A dependency has the new name of its buffer, and is the same otherwise."""

    def after(result: Any) -> Correction | None:
        wanted = replace(dep, name=renames.get(dep.name, dep.name))
        return None if result == wanted else Correction(f"{dep} was made {result}, not {wanted}", lambda: wanted)

    return after


def check_with_read(accesses: Any, added: Any) -> After:
    """A read that is added is there, and the others are."""
    reads = [*accesses.reads, *(added if hasattr(added, "add") else [added])]
    return lambda result: _sets_kept(result, reads, accesses.writes)


def check_without_reads(accesses: Any, removed: Any) -> After:
    """Only the reads that are removed are not there any more."""
    reads = [d for d in accesses.reads if d not in removed]
    return lambda result: _sets_kept(result, reads, accesses.writes)


def check_merged(parts: Sequence[Any]) -> After:
    """All writes, and all reads but those of what is written, are there."""
    writes = [d for part in parts for d in part.writes]
    reads = [d for part in parts for d in part.reads if d not in writes]
    return lambda result: _sets_kept(result, reads, writes)


def _sets_kept(result: Any, reads: Sequence[Any], writes: Sequence[Any]) -> Correction | None:
    lost = [d for some, kept in ((reads, result.reads), (writes, result.writes)) for d in some if d not in kept]
    if not lost:
        return None

    def mend() -> Any:
        return replace(result, reads=type(result.reads)(reads), writes=type(result.writes)(writes))

    return Correction(f"{lost[0]} is lost", mend)


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


def check_available(node: Any) -> After:
    """What is there from the start is not waited for, and all else is."""
    wanted = [d for d in node.unmet_dependencies if d.name not in node.scheduler.available_buffer_names]

    def after(result: Any) -> Correction | None:
        lost = [d for d in wanted if d not in node.unmet_dependencies]
        if not lost:
            return None

        def mend() -> Any:
            node.unmet_dependencies = type(node.unmet_dependencies)(wanted)
            return result

        return Correction(f"{node.get_name()} does not wait for {', '.join(d.name for d in lost)} any more", mend)

    return after


def check_pruned(node: Any, fused: Mapping[str, Any], buffers: Mapping[str, Any]) -> After:
    """Of order is dropped what lies within a fused node, and what another dependency on the same node keeps too."""

    def maker(dep: Any) -> Any:
        return fused[buffers[dep.name].defining_op_name()]

    before = list(node.unmet_dependencies)
    needed = {maker(d).get_name() for d in before if not is_weak(d)}

    def dropped(dep: Any) -> bool:
        if not is_weak(dep):
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


# -- of the order of nodes ----------------------------------------------------


def check_sorted(scheduler: Any, nodes: Sequence[Any]) -> After:
    """No node comes before one that it waits for."""
    makers = {b.get_name(): node for node in nodes for b in node.get_outputs()}

    def earlier(node: Any) -> list[Any]:
        found = [makers.get(d.name) for d in sorted(node.unmet_dependencies, key=lambda d: d.name)]
        return [n for n in found if n is not None and n is not node]

    def after(result: Any) -> Correction | None:
        places = {id(node): place for place, node in enumerate(result)}
        wrong = [(n, e) for n in result for e in earlier(n) if places.get(id(e), 0) > places[id(n)]]
        if not wrong:
            return None

        def mend() -> list[Any]:
            ordered: dict[int, Any] = {}

            def visit(node: Any) -> None:
                if id(node) not in seen:
                    seen.add(id(node))
                    for other in earlier(node):
                        visit(other)
                    ordered[id(node)] = node

            seen: set[int] = set()
            for node in nodes:
                visit(node)
            return list(ordered.values())

        first, second = (n.get_name() for n in wrong[0])
        return Correction(f"{first} comes before {second}", mend)

    return after


def check_round_sorted(scheduler: Any, *_: Any, **__: Any) -> After:
    """What a round of fusion leaves is in order."""
    return lambda result: check_sorted(scheduler, result)(result)


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
