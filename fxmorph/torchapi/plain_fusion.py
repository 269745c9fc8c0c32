"""Whether two of the scheduler's nodes may share a loop, or memory, asked by us where torch says that they may.

Each question is answered from the addresses that the nodes read and write, and from their loops; what we see
nothing against is left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy

from fxmorph.torchapi.addresses import addresses
from fxmorph.torchapi.corrections import After, Correction
from fxmorph.torchapi.plain_accesses import from_memory, same_addresses, sizes_known


def _refused(allowed: Any, why: str) -> Correction | None:
    return Correction(why, lambda: False) if allowed and why else None


def check_removed(scheduler: Any, name: str, fused: Any) -> After:
    """A buffer without memory is read by the nodes of one kernel alone, and is nobody else's memory."""

    def after(removed: Any) -> Correction | None:
        outside = [
            u.get_name() for u in scheduler.name_to_buf[name].users if not u.is_weak and u.get_name() not in fused
        ]
        shared = name in scheduler.mutation_renames or name in scheduler.mutation_real_name
        why = f"{name} is read outside of its kernel, by {', '.join(outside)}" if outside else ""
        return _refused(removed, why or (f"{name} is written in place" if shared else ""))

    return after


def check_read_and_write(scheduler: Any, read: Any, write: Any, *, allow_index_equivalence: bool = False) -> After:
    """What is read in one iteration was written in the same."""

    def after(allowed: Any) -> Correction | None:
        if allow_index_equivalence:  # loops of another order, which are asked about elsewhere
            return None
        return _refused(allowed, _other_element(read, write))

    return after


def _other_element(read: Any, write: Any) -> str:
    if read.name != write.name:
        return f"{read} is not {write}"
    if not hasattr(read, "var_names"):  # a read of the whole buffer
        mode = getattr(read, "mode", None)
        return "" if mode is not None and mode == write.mode else f"{read} is of all of it, not {write}"
    if write.mode == "atomic_add" or from_memory(read.index) or from_memory(write.index):
        return f"{read} may be of what another iteration writes as {write}"
    same = same_addresses(write.index, write.ranges, read.index, read.ranges)
    return "" if same else f"{read} is another element than {write}"


def check_weak(scheduler: Any, weak: Any, first: Any, second: Any) -> After:
    """Memory is overwritten in the iteration that reads it, and in no other."""

    def after(allowed: Any) -> Correction | None:
        return _refused(allowed, _overwritten(scheduler, weak, first, second))

    return after


def _overwritten(scheduler: Any, weak: Any, first: Any, second: Any) -> str:
    if hasattr(first, "read_to_node"):  # of several kernels in one launch
        return ""
    writes = [d for d in second.read_writes.writes if d.name == weak.mutating_buf]
    if weak.name not in first.get_buffer_names():
        return f"{weak.name} is not made by {first.get_name()}"
    if len(writes) != 1 or not hasattr(writes[0], "var_names") or from_memory(writes[0].index):
        return f"{weak.mutating_buf} is not written at one place in each iteration"
    write = writes[0]
    written = addresses(write.index, write.ranges, sizes_known())
    if written is not None and len(written.unique()) != len(written):
        return f"{write} writes elements more than once"
    real = scheduler.mutation_real_name[weak.mutating_buf]
    for read in first.read_writes.reads:
        if read.name != real:
            continue
        if not hasattr(read, "var_names") or from_memory(read.index):
            return f"{read} may be of what another iteration overwrites as {write}"
        if math.prod(read.size) != math.prod(write.size) or not same_addresses(
            write.index, write.ranges, read.index, read.ranges
        ):
            return f"{read} is another element than {write} overwrites"
    return ""


def check_in_place(node: Any, read: Any) -> After:
    """A result that takes the memory of what is read is written, in each iteration, where that was read."""

    def after(allowed: Any) -> Correction | None:
        if not allowed:
            return None
        (write,) = node.read_writes.writes
        same = math.prod(read.size) == math.prod(write.size) and not from_memory(read.index)
        same = same and same_addresses(write.index, write.ranges, read.index, read.ranges)
        return _refused(allowed, "" if same else f"{read} is another element than {write}, which takes its memory")

    return after


def check_in_place_update(node: Any) -> After:
    """Memory is given to a result by a node that is the last to read what it holds."""
    from torch._inductor.virtualized import V

    taken = getattr(getattr(V.kernel, "args", None), "inplace_buffers", {})
    before = set(taken)

    def after(result: Any) -> Correction | None:
        buffers = {**node.scheduler.name_to_donated_buffer, **node.scheduler.name_to_buf}
        done = {node.get_name(), *node.ancestors, *V.graph.removed_operations, *node.scheduler.completed_operations}
        for name in (b.get_name() for b in node.get_outputs()):
            names = taken[name].other_names if name in taken and name not in before else [name]
            given = next((n for n in reversed(names[: names.index(name)]) if n in buffers), None)
            users = buffers[given].users if given is not None else ()
            later = next((u.get_name() for u in users if not u.is_weak and u.get_name() not in done), None)
            if later is not None:

                def mend(names: list[str] = names, name: str = name) -> Any:
                    names.remove(name)
                    del taken[name]
                    V.kernel.inplace_update_buffers.pop(name, None)
                    if len(names) == 1 and names[0] not in before:
                        del taken[names[0]]
                    return result

                return Correction(f"{name} takes the memory of {given}, which {later} reads after it", mend)
        return None

    return after


def check_cycle(scheduler: Any, first: Any, second: Any) -> After:
    """No third node waits for one of the two while the other waits for it."""

    def after(cycle: Any) -> Correction | None:
        between = "" if cycle else _between(scheduler, first, second)
        return Correction(f"{between} lies between them", lambda: True) if between else None

    return after


def _between(scheduler: Any, first: Any, second: Any) -> str:
    """A node outside the pair on a way from one of the two to one of them."""
    pair = {id(first), id(second)}

    def parents(node: Any) -> list[Any]:
        names = [d.name for d in node.unmet_dependencies if d.name in scheduler.name_to_buf]
        return [scheduler.name_to_fused_node[scheduler.name_to_buf[n].defining_op_name()] for n in names]

    left = [p for node in (first, second) for p in parents(node) if id(p) not in pair]
    seen: set[int] = set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for parent in parents(node):
            if id(parent) in pair:
                return str(node.get_name())
            left.append(parent)
    return ""


def check_order(scheduler: Any, first: Any, second: Any, *_: Any, **__: Any) -> After:
    """The first of a pair does not wait for the second, which is fused as one that waits if it does; both are for one
    device.
    """

    def after(allowed: Any) -> Correction | None:
        why = ""
        if set(second.get_operation_names()) & set(first.ancestors):
            why = f"{first.get_name()} waits for {second.get_name()}"
        elif allowed and _waits_unseen(scheduler, first, second):
            why = f"{second.get_name()} waits for {first.get_name()}, and cannot be fused with it"
        elif first.get_device() != second.get_device():
            why = f"{first.get_name()} and {second.get_name()} are for two devices"
        return _refused(allowed, why)

    return after


def _waits_unseen(scheduler: Any, first: Any, second: Any) -> bool:
    """Of kernels for a CPU, of which none but such pairs are fused."""
    if first.get_device().type != "cpu" or not set(first.get_operation_names()) & set(second.ancestors):
        return False
    return not scheduler.can_fuse_vertical(first, second)


def check_fused(scheduler: Any, first: Any, second: Any, *_: Any, **__: Any) -> After:
    """All parts of a fused node are known by it."""

    def after(made: Any) -> Correction | None:
        known = scheduler.name_to_fused_node
        lost = [n.get_name() for n in made.get_nodes() if known.get(n.get_name()) is not made]

        def mend() -> Any:
            known.update(dict.fromkeys(lost, made))
            return made

        return Correction(f"{', '.join(lost)} are not known to be in {made.get_name()}", mend) if lost else None

    return after


# -- loops of C++ kernels ----------------------------------------------------


def check_loops(backend: Any, first: Any, second: Any) -> After:
    """One nest of loops does for both."""

    def after(allowed: Any) -> Correction | None:
        one, other = _loops(first), _loops(second)
        return _refused(allowed, "" if _one_nest(one, other) else f"loops {one} and {other} are not those of one nest")

    return after


def check_loops_of_reader(backend: Any, first: Any, second: Any) -> After:
    """One nest of loops does for both, or their outer loops do: within those a result of a reduction is there."""

    def after(allowed: Any) -> Correction | None:
        if first.is_template() or second.is_template():
            return None
        one, other = _loops(first), _loops(second)
        depth = min(len(one[0]), len(other[0]))
        outer = depth > 0 and one[0][:depth] == other[0][:depth]
        fits = outer or (_one_nest(one, other) and not first.is_reduction())
        return _refused(allowed, "" if fits else f"loops {one} end before {other}, which read what they make, begin")

    return after


def _loops(node: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Sizes of a node's loops: of its iterations, and of its reduction."""
    iterations, reduction = node.group[1]
    return tuple(iterations), tuple(reduction)


def _one_nest(one: tuple[Sequence[Any], Sequence[Any]], other: tuple[Sequence[Any], Sequence[Any]]) -> bool:
    if one == other or (not one[1] and one[0] == (*other[0], *other[1])):
        return True
    elements = [sympy.expand(math.prod(sizes)) for sizes, _ in (one, other)]
    return not one[1] and not other[1] and bool(sympy.expand(elements[0] - elements[1]) == 0)


def check_local(scope: Any, local: Any, kept: Sequence[Any] | None = None) -> After:
    """What a row of memory of one thread holds is read in its own turn of the outer loop, and before the next value."""
    from torch._inductor.virtualized import V

    def after(result: Any) -> Correction | None:
        why = _not_local(V.graph.scheduler, [b for b in kept or () if b.get_name() in scope.global_to_local])

        def mend() -> Any:
            """What was to be local stays where all threads see it."""
            del scope.local_buffers[local.get_name()]
            for buffer in kept or ():
                name = buffer.get_name()
                del scope.global_buffers[name], scope.global_to_local[name]
                if name in scope.removed_buffers:
                    scope.removed_buffers.remove(name)
                    V.graph.removed_buffers.remove(name)
            return result

        return Correction(why, mend) if why else None

    return after


def _not_local(scheduler: Any, kept: Sequence[Any]) -> str:
    read_until = dict[str, int]()
    for buffer in kept:
        made = scheduler.name_to_buf[buffer.get_name()]
        nodes = scheduler.name_to_fused_node[made.defining_op_name()].get_nodes()
        places = {node.get_name(): place for place, node in enumerate(nodes)}
        maker = nodes[places[made.defining_op_name()]]
        if any(user.get_name() not in places for user in made.users):
            return f"{buffer.get_name()} is read outside of the loop in which it is made"
        begin, end = places[maker.get_name()], max(places[user.get_name()] for user in made.users)
        overwritten = next((other for other, until in read_until.items() if until > begin), "")
        if overwritten:
            return f"{buffer.get_name()} takes the memory of {overwritten}, which is read after that"
        read_until[buffer.get_name()] = end
        (write,) = (d for d in maker.read_writes.writes if d.name == buffer.get_name())
        reads = [d for node in nodes for d in node.read_writes.reads if d.name == buffer.get_name()]
        elsewhere = next((d for d in reads if not same_addresses(write.index, write.ranges, d.index, d.ranges)), None)
        if elsewhere is not None:
            return f"{elsewhere} is another element than {write}"
    return ""
