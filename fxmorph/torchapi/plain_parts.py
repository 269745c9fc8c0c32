"""Parts of a compile that can be done by us instead, each plainly and by other code than torch's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial

from fxmorph.torchapi import (
    plain_indices,
    plain_kernel,
    plain_partition,
    plain_runtime,
    plain_seeds,
    plain_tracing,
    plain_wrapper,
)
from fxmorph.torchapi.plain_subclasses import plain_subclasses


class Plain(StrEnum):
    """What is done by us."""

    NOTHING_SAVED = "nothing is saved for the backward pass but inputs"
    EVERYTHING_SAVED = "everything that the backward pass reads is saved"
    DEFAULT_PARTITION = "default_partition"
    CHOICE = "what is saved is chosen by us"
    CUTTING = "the joint graph is cut by us"
    CLASSES = "which values each pass needs is decided by us"
    RANDOM_SAVED = "no random number is drawn again for the backward pass"
    RANDOM_NOTICED = "whether random numbers are to be drawn again is decided by us"
    AUTOGRAD_FUNCTION = "forward and backward graph are called by an autograd function of ours"
    WRITING = "inputs are written back by us"
    VIEWS = "views are made by us"
    RUNTIME_WRAPPER = "the runtime wrapper is ours"
    SUBCLASSES = "tensor subclasses are taken apart and put together by us"
    NO_EFFECTS = "the program runs in the place of what is compiled"
    PROGRAM = "the program runs in the place of what is compiled, and writes by itself"
    KERNELS = "kernels are interpreted, not generated"
    KERNELS_IN_ORDER = "kernels are interpreted one iteration after the other"
    KERNELS_THAT_REDUCE = "kernels that reduce are interpreted, not generated"
    INDICES = "index expressions are printed by us"
    SIZES_IN_PYTHON = "sizes around kernels are printed by us"
    RANGES = "indices are not simplified by the ranges of loops"
    TILES = "vectors lie along one dimension"
    ALIASES = "each view of a base is made by us"
    WRAPPER_VIEWS = "views of buffers are written by us"
    WRAPPER_BUFFERS = "new buffers are written by us"
    WRAPPER_REUSE = "buffers that are used again are written by us"
    WRAPPER_KEYS = "which buffers may take each other's memory is told by us"
    WRAPPER_ARGUMENTS = "arguments of kernels of others are written by us"
    WRAPPER_INDEX_PUT = "calls that write by indices are written by us"
    WRAPPER_SCATTER = "calls that scatter are written by us"
    WRAPPER_RESULTS = "which of several results of a call is taken is written by us"
    GATHERS = "vectors of elements that do not lie side by side are loaded and stored by us"
    CONVERSIONS = "functional tensors are converted as other tensors are"
    COUNTS = "how often inputs were written is counted by us"
    SEQUENCES = "the views that make a result of its base are kept by us"
    OUTERMOST = "the program runs in the place of all that AOTAutograd makes"
    IN_GRAPH = "what writes to inputs may be made in the graph is decided by us"
    WRITTEN = "which inputs are written, and where, is decided by us"
    UNWRAPPED = "what functional tensors stand for is taken out of them by us"
    AUTOCAST = "autocast is switched off by us where gradients are traced"
    KINDS = "which inputs and results are of which kind is counted by us"
    BASES = "what is said of common bases of inputs is said by us"
    OVERLAPS = "inputs of one memory are taken to share elements"
    DETACHED = "which inputs are cut off from autograd is decided by us"
    NUMBERS = "numbers of Python are not made tensors"
    TAGS_FORWARD = "what must stay in the forward pass is marked by us"
    TAGS_BACKWARD = "what must stay in the backward pass is marked by us"
    TAGS_OF_GRADIENTS = "what computes gradients is marked by us"
    DONATED = "which saved tensors may be overwritten is decided by us"
    DONATED_PLACES = "where saved tensors that may be overwritten lie is decided by us"
    SEEDS = "random numbers of the compiler's own have seeds that we hand out"
    REDUCTIONS = "no reduction in a kernel is used again for another"
    CXX = "the C++ compiler makes no vectors of single operations"


def _interpreted(one_by_one: bool = False, reductions: bool = False) -> AbstractContextManager[None]:
    from fxmorph.torchapi.interpreted_kernels import kernels_interpreted  # of what older releases lack

    return kernels_interpreted(one_by_one=one_by_one, reductions=reductions)


_CONTEXTS: dict[Plain, Callable[[], AbstractContextManager[None]]] = {
    Plain.NOTHING_SAVED: plain_partition.nothing_saved,
    Plain.EVERYTHING_SAVED: plain_partition.everything_saved,
    Plain.DEFAULT_PARTITION: plain_partition.default_partitioner,
    Plain.CHOICE: plain_partition.plain_choice,
    Plain.CUTTING: plain_partition.plain_cutting,
    Plain.CLASSES: plain_partition.plain_classes,
    Plain.RANDOM_SAVED: plain_partition.random_saved,
    Plain.RANDOM_NOTICED: plain_partition.plain_notice_of_random,
    Plain.AUTOGRAD_FUNCTION: plain_runtime.plain_autograd_function,
    Plain.WRITING: plain_runtime.plain_writing,
    Plain.VIEWS: plain_runtime.plain_views,
    Plain.SUBCLASSES: plain_subclasses,
    Plain.RUNTIME_WRAPPER: plain_runtime.plain_runtime_wrapper,
    Plain.NO_EFFECTS: plain_runtime.program_without_effects,
    Plain.PROGRAM: partial(plain_runtime.program_at_level, -1),
    Plain.KERNELS: _interpreted,
    Plain.KERNELS_IN_ORDER: partial(_interpreted, one_by_one=True),
    Plain.KERNELS_THAT_REDUCE: partial(_interpreted, reductions=True),
    Plain.INDICES: plain_indices.plain_indices,
    Plain.SIZES_IN_PYTHON: plain_indices.plain_sizes_in_python,
    Plain.RANGES: plain_indices.unsimplified_indices,
    Plain.TILES: plain_indices.one_dimensional_tiles,
    Plain.ALIASES: plain_runtime.plain_aliases,
    Plain.WRAPPER_VIEWS: partial(plain_wrapper.plain_wrapper_text, "codegen_reinterpret_view"),
    Plain.WRAPPER_BUFFERS: partial(plain_wrapper.plain_wrapper_text, "make_allocation"),
    Plain.WRAPPER_REUSE: partial(plain_wrapper.plain_wrapper_text, "make_buffer_reuse"),
    Plain.WRAPPER_KEYS: partial(plain_wrapper.plain_wrapper_text, "buffer_reuse_key"),
    Plain.WRAPPER_ARGUMENTS: partial(plain_wrapper.plain_wrapper_text, "codegen_args"),
    Plain.WRAPPER_INDEX_PUT: partial(plain_wrapper.plain_wrapper_text, "_generate_index_put_fallback"),
    Plain.WRAPPER_SCATTER: partial(plain_wrapper.plain_wrapper_text, "_generate_scatter_fallback"),
    Plain.WRAPPER_RESULTS: partial(plain_wrapper.plain_wrapper_text, "codegen"),
    Plain.GATHERS: plain_kernel.plain_gathers,
    Plain.CONVERSIONS: plain_tracing.plain_conversions,
    Plain.COUNTS: plain_tracing.plain_counts_of_writes,
    Plain.SEQUENCES: plain_tracing.plain_sequences_of_views,
    Plain.OUTERMOST: partial(plain_runtime.program_at_level, 0),
    Plain.IN_GRAPH: plain_tracing.plain_place_of_writes,
    Plain.WRITTEN: plain_tracing.plain_kinds_of_writes,
    Plain.UNWRAPPED: plain_tracing.plain_unwrapping,
    Plain.AUTOCAST: plain_tracing.plain_autocast,
    Plain.KINDS: plain_tracing.plain_numbers_of_kinds,
    Plain.BASES: plain_tracing.plain_bases,
    Plain.OVERLAPS: plain_tracing.all_overlap,
    Plain.DETACHED: plain_tracing.plain_detaching,
    Plain.NUMBERS: plain_tracing.numbers_left,
    Plain.TAGS_FORWARD: partial(plain_tracing.plain_tags, "must_be_in_forward"),
    Plain.TAGS_BACKWARD: partial(plain_tracing.plain_tags, "must_be_in_backward"),
    Plain.TAGS_OF_GRADIENTS: partial(plain_tracing.plain_tags, "is_backward"),
    Plain.DONATED: plain_tracing.plain_donation,
    Plain.DONATED_PLACES: plain_tracing.plain_places_of_donation,
    Plain.SEEDS: plain_seeds.seeds_apart,
    Plain.REDUCTIONS: plain_kernel.reductions_anew,
    Plain.CXX: plain_kernel.unvectorised_code,
}


def plainly(part: Plain) -> AbstractContextManager[None]:
    """Compiles inside have this part done by us."""
    return _CONTEXTS[part]()
