"""What functions of Inductor's scheduler find out, compared with what we find out ourselves, and put right.

A check says of one call of a function what is wrong with what it did, nothing where it agrees.  Watched compiles
stay as they are; in mended ones our own answer takes the place of a wrong one, and right ones stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar
from unittest import mock

from fxmorph.torchapi.corrections import Check
from fxmorph.torchapi.order_kept import order_watched

_SCHEDULER = "torch._inductor.scheduler"
_DEPENDENCIES = "torch._inductor.dependencies"
_SIZES = "torch._inductor.sizevars"
_IR = "torch._inductor.ir"
_BODY = "torch._inductor.loop_body"
_CPP = "torch._inductor.codegen.cpp"
_CPP_BUFFERS = "torch._inductor.codegen.cpp_utils"
T = TypeVar("T")
#: Name of the unit, module and name where the function is looked up when it is called, our module and check.  What
#: others rely on comes first.
_CHECKED = (
    ("extract_read_writes", _DEPENDENCIES, "extract_read_writes", "plain_accesses", "check_accesses"),
    ("SizeVarAllocator/_simplify_loops_impl", _SIZES, "SizeVarAllocator._simplify_loops_impl",
     "plain_loops", "check_loops_merged"),
    ("ComputedBuffer/simplify_and_reorder", _IR, "ComputedBuffer.simplify_and_reorder",
     "plain_loops", "check_node_made"),
    ("LoopBody/merge_loops", _BODY, "LoopBody.merge_loops", "plain_loops", "check_body_kept"),
    ("LoopBody/reorder_iter_loops", _BODY, "LoopBody.reorder_iter_loops", "plain_loops", "check_body_kept"),
    ("LoopBody/reindex_iter_loops", _BODY, "LoopBody.reindex_iter_loops", "plain_loops", "check_body_kept"),
    ("MemoryDep/rename", _DEPENDENCIES, "MemoryDep.rename", "plain_dependencies", "check_renamed"),
    ("StarDep/rename", _DEPENDENCIES, "StarDep.rename", "plain_dependencies", "check_renamed"),
    ("WeakDep/rename", _DEPENDENCIES, "WeakDep.rename", "plain_dependencies", "check_renamed"),
    ("ReadWrites/with_read", _DEPENDENCIES, "ReadWrites.with_read", "plain_dependencies", "check_with_read"),
    ("ReadWrites/remove_reads", _DEPENDENCIES, "ReadWrites.remove_reads", "plain_dependencies", "check_without_reads"),
    ("ReadWrites/merge_list", _DEPENDENCIES, "ReadWrites.merge_list", "plain_dependencies", "check_merged"),
    ("BaseSchedulerNode/prune_deps", _SCHEDULER, "BaseSchedulerNode.prune_deps",
     "plain_dependencies", "check_available"),
    ("compute_dependencies", _SCHEDULER, "Scheduler.compute_dependencies", "plain_dependencies", "check_dependencies"),
    ("topological_sort_schedule", _SCHEDULER, "Scheduler.topological_sort_schedule",
     "plain_dependencies", "check_sorted"),
    ("compute_ancestors", _SCHEDULER, "Scheduler.compute_ancestors", "plain_dependencies", "check_ancestors"),
    ("SchedulerNode/recompute_size_and_body", _SCHEDULER, "SchedulerNode.recompute_size_and_body",
     "plain_dependencies", "check_order_kept"),
    ("SchedulerNode/refresh_dependencies", _SCHEDULER, "SchedulerNode.refresh_dependencies",
     "plain_dependencies", "check_order_kept"),
    ("prune_redundant_deps", _SCHEDULER, "_prune_redundant_deps", "plain_dependencies", "check_pruned"),
    ("refresh_group_node_dependencies", _SCHEDULER, "refresh_group_node_dependencies",
     "plain_dependencies", "check_group"),
    ("init_group_node", _SCHEDULER, "init_group_node", "plain_dependencies", "check_group_place"),
    ("compute_last_usage", _SCHEDULER, "Scheduler.compute_last_usage", "plain_dependencies", "check_last_usage"),
    ("can_buffer_be_removed_through_fusion", _SCHEDULER, "Scheduler.can_buffer_be_removed_through_fusion",
     "plain_fusion", "check_removed"),
    ("SchedulerNode/can_inplace", _SCHEDULER, "SchedulerNode.can_inplace", "plain_fusion", "check_in_place"),
    ("BaseSchedulerNode/decide_inplace_update", _SCHEDULER, "BaseSchedulerNode.decide_inplace_update",
     "plain_fusion", "check_in_place_update"),
    ("fusable_read_and_write", _SCHEDULER, "Scheduler.fusable_read_and_write", "plain_fusion", "check_read_and_write"),
    ("fusable_weak_dep", _SCHEDULER, "Scheduler.fusable_weak_dep", "plain_fusion", "check_weak"),
    ("will_fusion_create_cycle", _SCHEDULER, "Scheduler.will_fusion_create_cycle", "plain_fusion", "check_cycle"),
    ("fuse_two_nodes", _SCHEDULER, "Scheduler.fuse_two_nodes", "plain_fusion", "check_fused"),
    ("fuse_nodes_once", _SCHEDULER, "Scheduler.fuse_nodes_once", "plain_dependencies", "check_round_sorted"),
    ("can_fuse", _SCHEDULER, "Scheduler.can_fuse", "plain_fusion", "check_order"),
    ("CppScheduling/can_fuse_horizontal", _CPP, "CppScheduling.can_fuse_horizontal", "plain_fusion", "check_loops"),
    ("CppScheduling/can_fuse_vertical", _CPP, "CppScheduling.can_fuse_vertical",
     "plain_fusion", "check_loops_of_reader"),
    ("CppScheduling/codegen_outer_loop_node", _CPP_BUFFERS, "LocalBufferContext.add_local_buffer",
     "plain_fusion", "check_local"),
)  # fmt: skip
#: Names of what has a check of its own.
CHECKED = tuple(row[0] for row in _CHECKED)


@contextlib.contextmanager
def scheduler_watched() -> Iterator[Mapping[str, str]]:
    """What the scheduler does wrong in compiles inside, in words, by the function that does it.

    Functions with a check of their own come first, in the order of the checks.
    """
    told: dict[str, str] = {}
    with order_watched() as lost, _checked(CHECKED, mend=False) as wrong:
        yield told
    told |= {unit: wrong[unit] for unit in CHECKED if unit in wrong} | lost


@contextlib.contextmanager
def scheduler_mended(unit: str) -> Iterator[None]:
    """What this function does wrong is put right in compiles inside, and nothing else."""
    with _checked((unit,), mend=True) if unit in CHECKED else order_watched(unit):
        yield


@contextlib.contextmanager
def _checked(units: Collection[str], mend: bool) -> Iterator[dict[str, str]]:
    wrong: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for unit, module, function, *ours in _CHECKED:
            home: Any = _module(module) if unit in units else None
            *path, name = function.split(".")
            for part in path:
                home = getattr(home, part, None)
            own = _module(f"fxmorph.torchapi.{ours[0]}")
            original = getattr(home, name, None)
            if original is not None and own is not None:
                check = getattr(own, ours[1])
                watched: Any = _watched(original, unit, check, wrong, mend)
                static = isinstance(vars(home)[name], staticmethod)
                stack.enter_context(mock.patch.object(home, name, staticmethod(watched) if static else watched))
        yield wrong


def _module(name: str) -> Any:
    """The module; None where this torch lacks it, or what ours needs."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _watched(
    original: Callable[..., Any], unit: str, check: Check, wrong: dict[str, str], mend: bool
) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        after = _said(lambda: check(*args, **kwargs))
        result = original(*args, **kwargs)
        correction = None if after is None else _said(lambda: after(result))
        if correction is None:
            return result
        wrong.setdefault(unit, correction.wrong)
        return correction.mend() if mend else result

    return watched


def _said(say: Callable[[], T]) -> T | None:
    """None where we cannot say: nodes of a kind, or of a release, that we do not know are not wrong."""
    try:
        return say()
    except Exception:
        return None
