"""What Inductor's scheduler does wrong is seen in the function that does it, and nothing is seen where it is right."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch._inductor.config
from loop_programs import below_the_diagonal, two_scores
from torch._inductor.dependencies import MemoryDep, StarDep, WeakDep

from fxmorph.torchapi import scheduler_checks
from fxmorph.torchapi.compiling import reset
from fxmorph.torchapi.plain_dependencies import check_group, check_pruned, check_renamed, check_sorted
from fxmorph.torchapi.plain_loops import check_body_kept
from fxmorph.torchapi.planting_text import planted_text
from fxmorph.torchapi.program_order import ProgramOrder
from fxmorph.torchapi.scheduler_checks import scheduler_mended, scheduler_watched

pytestmark = pytest.mark.usefixtures("torch_quiet")


class Buffer(SimpleNamespace):
    """A buffer of one node, which may be another buffer's memory."""

    def get_name(self) -> str:
        return str(self.name)

    def get_mutations(self) -> list[str]:
        return list(self.mutates)

    def defining_op_name(self) -> str:
        return str(self.node)


class Node(SimpleNamespace):
    """A scheduler node ``opN`` that makes ``bufN``, and waits for what ``deps`` say."""

    def get_name(self) -> str:
        return f"op{self.number}"

    def get_outputs(self) -> list[Buffer]:
        return [Buffer(name=f"buf{self.number}", mutates=self.mutates, node=self.get_name())]


def node(number: int, *deps: Any, mutates: tuple[str, ...] = ()) -> Node:
    return Node(number=number, mutates=mutates, unmet_dependencies=list(deps))


def scheduler(*nodes: Node) -> Any:
    buffers = {b.get_name(): b for n in nodes for b in n.get_outputs()}
    return SimpleNamespace(nodes=list(nodes), name_to_buf=buffers)


def test_a_program_asks_for_the_order_of_reads_and_writes_of_one_memory() -> None:
    reader, writer = node(0), node(1, WeakDep("buf0", "buf1"), mutates=("x",))
    late = node(2, StarDep("buf1"))
    reads = {"op0": ["x"], "op1": [], "op2": ["x"]}
    order = ProgramOrder(scheduler(reader, writer, late), reads)
    asked = [(w.later.get_name(), w.earlier.get_name()) for w in order.wanted]
    assert asked == [("op1", "op0"), ("op2", "op1")]
    assert not list(order.lost_orders())
    writer.unmet_dependencies.clear()
    (said, _), = ProgramOrder(scheduler(reader, writer, late), reads).lost_orders()  # fmt: skip
    assert said == "op1 does not wait for op0, which overwrites what it reads"


def test_order_is_kept_by_nodes_between_too() -> None:
    first, second, third = node(0), node(1, StarDep("buf0")), node(2, StarDep("buf1"))
    reads = {"op0": [], "op1": ["buf0"], "op2": ["buf0"]}
    assert not list(ProgramOrder(scheduler(first, second, third), reads).lost_orders())


def test_a_node_before_one_that_it_waits_for_is_put_behind_it() -> None:
    first, second = node(0), node(1, StarDep("buf0"))
    after = check_sorted(None, [second, first])
    assert after([first, second]) is None
    wrong = after([second, first])
    assert wrong is not None and wrong.wrong == "op1 comes before op0" and wrong.mend() == [first, second]


def test_a_dependency_of_order_is_dropped_only_where_another_keeps_it() -> None:
    weak = WeakDep("buf0", "buf2")
    reader, other = node(0), node(1)
    writer = node(2, weak, StarDep("buf1"), mutates=("x",))
    writer.scheduler = SimpleNamespace(fusable_weak_dep=lambda *_: True)
    buffers = scheduler(reader, other, writer).name_to_buf
    apart = check_pruned(writer, {"op0": reader, "op1": other, "op2": writer}, buffers)
    together = check_pruned(writer, {"op0": other, "op1": other, "op2": writer}, buffers)
    writer.unmet_dependencies.remove(weak)
    wrong = apart(None)
    assert wrong is not None and wrong.wrong == "op2 does not wait for buf0 any more"
    assert together(None) is None


def test_a_group_waits_for_what_its_parts_wait_for() -> None:
    weak = WeakDep("buf0", "buf2")
    parts = [node(1), node(2, weak, StarDep("buf1"))]
    for part in parts:
        part.read_writes = SimpleNamespace(reads=part.unmet_dependencies, writes=[])
    group = SimpleNamespace(snodes=parts, unmet_dependencies=[weak],
                            read_writes=SimpleNamespace(reads=[weak, StarDep("buf1")], writes=[]))  # fmt: skip
    assert check_group(group)(None) is None
    group.unmet_dependencies = []
    wrong = check_group(group)(None)
    assert wrong is not None
    wrong.mend()
    assert group.unmet_dependencies == [weak]


def test_a_dependency_that_lost_its_new_name_gets_it() -> None:
    dep = MemoryDep("x", 0, (), ())
    after = check_renamed(dep, {"x": "buf1"})
    wrong = after(dep)
    assert wrong is not None and wrong.mend().name == "buf1" and after(wrong.mend()) is None


# -- of compiles -------------------------------------------------------------

SCHEDULER, DEPENDENCIES = "torch._inductor.scheduler", "torch._inductor.dependencies"
IR, SIZES, CPP = (f"torch._inductor.{n}" for n in ("ir", "sizevars", "codegen.cpp"))


def read_then_set(state: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> Any:
    shifted = torch.nn.functional.pad((u * 2)[1:], (0, 0, 0, 1))
    p = state @ w
    state.copy_(u.flip(0) + shifted)
    return u.cos() * 2, p, u * 2, state.softmax(1)


def mirrored_then_damped(x: torch.Tensor, b: torch.Tensor) -> Any:
    y = x.flip(0) * b + x
    s = x + b
    x.mul_(0.25)
    return y.cos(), s


def projected_then_set(state: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> Any:
    a = u.cos() * 2
    p = state @ w
    state.copy_(u + 1)
    return a, p


def added_by_rows(x: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, torch.tensor([0, 1, 1]), x[:3]).sin()


class Scheduled(Exception):
    """A program has been scheduled: there is nothing more to see."""


def watched(
    fn: Callable[..., Any], *shapes: tuple[int, ...], look: Callable[[Any], None] = lambda scheduler: None
) -> Mapping[str, str]:
    """What is told of a program that is scheduled and printed, but for no compiler; ``look`` sees its scheduler."""
    from torch._inductor.scheduler import Scheduler

    original = Scheduler.codegen

    def codegen(scheduler: Any) -> None:
        original(scheduler)
        look(scheduler)
        raise Scheduled

    reset()
    stop = mock.patch.object(Scheduler, "codegen", codegen)
    anew = torch._inductor.config.patch(force_disable_caches=True)
    with scheduler_watched() as told, torch.no_grad(), stop, anew, pytest.raises(Exception, match="Scheduled"):
        torch.compile(fn)(*(torch.ones(s) for s in shapes))
    return told


def test_each_check_is_there_and_its_function_too() -> None:
    for unit, module, function, home, name in scheduler_checks._CHECKED:
        found = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
        assert callable(found), unit
        assert callable(getattr(importlib.import_module(f"fxmorph.torchapi.{home}"), name)), unit


def test_of_a_scheduler_that_is_right_nothing_is_told() -> None:
    assert watched(read_then_set, (8, 8), (8, 8), (8, 8)) == {}
    assert watched(two_scores, (6, 64)) == {}
    assert watched(below_the_diagonal, (3, 12, 12)) == {}


def test_a_body_of_other_loops_goes_through_the_same_iterations() -> None:
    said: dict[str, Any] = {}

    def look(scheduler: Any) -> None:
        body = scheduler.nodes[0]._body
        after = check_body_kept(body)
        said["reordered"] = after(body.reorder_iter_loops([1, 0]))
        said["twice"] = after(body.expand_dimension_for_pointwise_node(0, 2 * body.sizes[0][0]))

    assert watched(lambda x: x + x.t(), (8, 8), look=look) == {}
    assert said["reordered"] is None
    assert said["twice"] is not None and "are lost" in said["twice"].wrong


#: Function of the unit, edit of its text, and the program that shows it.
FAULTS = {
    "refresh_group_node_dependencies": (
        (SCHEDULER, "refresh_group_node_dependencies", "if dep.name not in group_snode.get_buffer_names()",
         "if dep.name not in group_snode.get_buffer_names() and not isinstance(dep, WeakDep)"),
        (read_then_set, (8, 8), (8, 8), (8, 8)),
    ),
    "compute_dependencies": (
        (SCHEDULER, "Scheduler.compute_dependencies", "if user.get_name() == node.get_name():", "if True:"),
        (read_then_set, (8, 8), (8, 8), (8, 8)),
    ),
    "extract_read_writes": (
        (DEPENDENCIES, "_RecordLoadStoreInner.load", "*self.canonicalize(index)", "*self.canonicalize(index * 0)"),
        (read_then_set, (8, 8), (8, 8), (8, 8)),
    ),
    "topological_sort_schedule": (
        (SCHEDULER, "Scheduler.topological_sort_schedule", "sorted(n.unmet_dependencies, ",
         "sorted((d for d in n.unmet_dependencies if not isinstance(d, WeakDep)), "),
        (projected_then_set, (8, 8), (8, 8), (8, 8)),
    ),
    "fusable_weak_dep": (
        (SCHEDULER, "Scheduler.fusable_weak_dep", "        if weak_dep.name not in node1.get_buffer_names():\n",
         "        return weak_dep.name in node1.get_buffer_names()\n        if not weak_dep.name:\n"),
        (mirrored_then_damped, (96,), (96,)),
    ),
    "fusable_read_and_write": (
        (SCHEDULER, "Scheduler.fusable_read_and_write", "        if isinstance(read, MemoryDep):\n",
         "        return read.name == write.name\n        if isinstance(read, MemoryDep):\n"),
        (lambda x: (x.sum(1), x.sum(1).flip(0) * x.exp().sum(1)), (8, 16)),
    ),
    "MemoryDep/rename": (
        (DEPENDENCIES, "MemoryDep.rename", "if self.name in renames:", "if self.name in renames and self.mode:"),
        (added_by_rows, (8, 16)),
    ),
    "SchedulerNode/can_inplace": (
        (SCHEDULER, "SchedulerNode.can_inplace", "return read_dep.index == write_dep.index and", "return"),
        (lambda x: (x.cumsum(0).flip(0) * 2), (96,)),
    ),
    "SizeVarAllocator/_simplify_loops_impl": (
        (SIZES, "SizeVarAllocator._simplify_loops_impl",
         "if self.simplify(expr1) == self.simplify(expr2):", "if True:"),
        (lambda x, w: x * w.repeat_interleave(2)[:, None], (6, 8), (3,)),
    ),
    "ComputedBuffer/simplify_and_reorder": (
        (IR, "ComputedBuffer.simplify_and_reorder", "[*body.indexing_exprs.values()]",
         "[*body.get_write_exprs(), *body.get_read_exprs()]"),
        (below_the_diagonal, (3, 12, 12)),
    ),
    "CppScheduling/codegen_outer_loop_node": (
        (CPP, "CppScheduling.codegen_outer_loop_node",
         "user.node.get_name() in visited_scheduler_nodes", "user.node in node.get_nodes()"),
        (two_scores, (6, 64)),
    ),
    "BaseSchedulerNode/prune_weak_deps": (
        (SCHEDULER, "BaseSchedulerNode.prune_weak_deps", "return op_name in V.graph.removed_operations", "return True"),
        (read_then_set, (8, 8), (8, 8), (8, 8)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("unit", FAULTS)
def test_a_fault_is_told_of_its_function_and_mended(unit: str) -> None:
    edit, program = FAULTS[unit]
    with planted_text(*edit):
        assert unit in watched(*program)
        with scheduler_mended(unit):
            assert unit not in watched(*program)
