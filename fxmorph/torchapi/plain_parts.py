"""Parts of a compile that can be done by us instead, each plainly and by other code than torch's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial

from fxmorph.torchapi import plain_indices, plain_partition, plain_runtime, plain_wrapper
from fxmorph.torchapi.plain_subclasses import plain_subclasses


class Plain(StrEnum):
    """What is done by us."""

    NOTHING_SAVED = "nothing is saved for the backward pass but inputs"
    EVERYTHING_SAVED = "everything that the backward pass reads is saved"
    DEFAULT_PARTITION = "default_partition"
    CHOICE = "what is saved is chosen by us"
    CUTTING = "the joint graph is cut by us"
    AUTOGRAD_FUNCTION = "forward and backward graph are called by an autograd function of ours"
    WRITING = "inputs are written back by us"
    VIEWS = "views are made by us"
    RUNTIME_WRAPPER = "the runtime wrapper is ours"
    SUBCLASSES = "tensor subclasses are taken apart and put together by us"
    NO_EFFECTS = "the program runs in the place of what is compiled"
    PROGRAM = "the program runs in the place of what is compiled, and writes by itself"
    KERNELS = "kernels are interpreted, not generated"
    KERNELS_IN_ORDER = "kernels are interpreted one iteration after the other"
    INDICES = "index expressions are printed by us"
    RANGES = "indices are not simplified by the ranges of loops"
    LOOPS = "loops are not merged"
    TILES = "vectors lie along one dimension"
    ALIASES = "each view of a base is made by us"
    WRAPPER_VIEWS = "views of buffers are written by us"
    WRAPPER_BUFFERS = "new buffers are written by us"
    WRAPPER_REUSE = "buffers that are used again are written by us"
    WRAPPER_ARGUMENTS = "arguments of kernels of others are written by us"
    OUTERMOST = "the program runs in the place of all that AOTAutograd makes"
    ACCESSES = "loads and stores that are recorded wrong are recorded by us"
    DEPENDENCIES = "dependencies that are lost are added by us"
    ANCESTORS = "ancestors that are lost are added by us"
    LOOPS_RECOMPUTED = "dependencies that are lost where loops are computed anew are added by us"
    LOOPS_REFRESHED = "dependencies that are lost where loops change are added by us"
    PRUNING = "dependencies that are needed are not pruned"
    GROUPS = "dependencies of fused nodes are gathered by us"
    GROUP_PLACES = "fused nodes are put into order by us"
    LAST_USAGE = "buffers are used for the last time where we say"
    FUSABLE_READ = "no read of another element than was written is fused with the write"
    FUSABLE_WEAK = "no write is fused with a read of another element of the same memory"
    CYCLES = "no pair with a node between is fused"
    ORDER = "no pair in the wrong order is fused"
    ONE_NEST = "no pair with loops that differ is fused"
    OUTER_NEST = "no pair with outer loops that differ is fused"


def _interpreted(one_by_one: bool = False) -> AbstractContextManager[None]:
    from fxmorph.torchapi.kernel_interpreter import kernels_interpreted  # of what older releases lack

    return kernels_interpreted(one_by_one)


@contextlib.contextmanager
def _mended(function: str) -> Iterator[None]:
    from fxmorph.torchapi.scheduler_checks import scheduler_checked  # of what older releases lack

    with scheduler_checked(function):
        yield


def scheduler_watched() -> AbstractContextManager[Mapping[str, str]]:
    """What the scheduler does wrong in compiles inside, in words, by the function that can be mended.

    Nothing where it cannot be looked at.
    """
    try:
        from fxmorph.torchapi.scheduler_checks import scheduler_checked
    except ImportError:  # an older release
        return contextlib.nullcontext({})
    return scheduler_checked()


_CONTEXTS: dict[Plain, Callable[[], AbstractContextManager[None]]] = {
    Plain.NOTHING_SAVED: plain_partition.nothing_saved,
    Plain.EVERYTHING_SAVED: plain_partition.everything_saved,
    Plain.DEFAULT_PARTITION: plain_partition.default_partitioner,
    Plain.CHOICE: plain_partition.plain_choice,
    Plain.CUTTING: plain_partition.plain_cutting,
    Plain.AUTOGRAD_FUNCTION: plain_runtime.plain_autograd_function,
    Plain.WRITING: plain_runtime.plain_writing,
    Plain.VIEWS: plain_runtime.plain_views,
    Plain.SUBCLASSES: plain_subclasses,
    Plain.RUNTIME_WRAPPER: plain_runtime.plain_runtime_wrapper,
    Plain.NO_EFFECTS: plain_runtime.program_without_effects,
    Plain.PROGRAM: partial(plain_runtime.program_at_level, -1),
    Plain.KERNELS: _interpreted,
    Plain.KERNELS_IN_ORDER: partial(_interpreted, one_by_one=True),
    Plain.INDICES: plain_indices.plain_indices,
    Plain.RANGES: plain_indices.unsimplified_indices,
    Plain.LOOPS: plain_indices.loops_apart,
    Plain.TILES: plain_indices.one_dimensional_tiles,
    Plain.ALIASES: plain_runtime.plain_aliases,
    Plain.WRAPPER_VIEWS: partial(plain_wrapper.plain_wrapper_text, "codegen_reinterpret_view"),
    Plain.WRAPPER_BUFFERS: partial(plain_wrapper.plain_wrapper_text, "make_allocation"),
    Plain.WRAPPER_REUSE: partial(plain_wrapper.plain_wrapper_text, "make_buffer_reuse"),
    Plain.WRAPPER_ARGUMENTS: partial(plain_wrapper.plain_wrapper_text, "codegen_args"),
    Plain.OUTERMOST: partial(plain_runtime.program_at_level, 0),
    Plain.ACCESSES: partial(_mended, "extract_read_writes"),
    Plain.DEPENDENCIES: partial(_mended, "compute_dependencies"),
    Plain.ANCESTORS: partial(_mended, "compute_ancestors"),
    Plain.LOOPS_RECOMPUTED: partial(_mended, "SchedulerNode/recompute_size_and_body"),
    Plain.LOOPS_REFRESHED: partial(_mended, "SchedulerNode/refresh_dependencies"),
    Plain.PRUNING: partial(_mended, "prune_redundant_deps"),
    Plain.GROUPS: partial(_mended, "refresh_group_node_dependencies"),
    Plain.GROUP_PLACES: partial(_mended, "init_group_node"),
    Plain.LAST_USAGE: partial(_mended, "compute_last_usage"),
    Plain.FUSABLE_READ: partial(_mended, "fusable_read_and_write"),
    Plain.FUSABLE_WEAK: partial(_mended, "fusable_weak_dep"),
    Plain.CYCLES: partial(_mended, "will_fusion_create_cycle"),
    Plain.ORDER: partial(_mended, "can_fuse"),
    Plain.ONE_NEST: partial(_mended, "CppScheduling/can_fuse_horizontal"),
    Plain.OUTER_NEST: partial(_mended, "CppScheduling/can_fuse_vertical"),
}


def plainly(part: Plain) -> AbstractContextManager[None]:
    """Compiles inside have this part done by us."""
    return _CONTEXTS[part]()
