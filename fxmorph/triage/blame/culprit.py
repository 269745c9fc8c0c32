"""What a finding is blamed on, and what a PyTorch engineer types to see the same by hand."""

from __future__ import annotations

from collections.abc import Sequence

from fxmorph.core.units import CXX, UNVECTORISED, Stage
from fxmorph.model import LAYOUT_KINDS, BugClass, Kind
from fxmorph.torchapi.optional_passes import opted
from fxmorph.torchapi.plain_partition import CHOICE, CLASSES, CUTTING, MIN_CUT, RNG, RNG_NOTICE
from fxmorph.torchapi.plain_parts import Plain

#: Subsystems of PyTorch's own bisector by stage.
_SUBSYSTEMS = {
    Stage.PRE_GRAD: "pre_grad_passes",
    Stage.JOINT: "joint_graph_passes",
    Stage.POST_GRAD: "post_grad_passes",
    Stage.LOWERING: "lowerings",
    Stage.DECOMPOSITION: "decomposition",
}
#: Classes that merge and order the loops of one node, which no setting keeps them from.
_LOOPS = ("SizeVarAllocator", "ComputedBuffer", "LoopBody")
#: Settings of ``torch._inductor.config`` that take a part of the backend away, by unit.
SETTINGS: dict[str, dict[str, object]] = {
    "codegen.CppVecKernel": {"cpp.simdlen": 1},
    "scheduler.inplace_buffers": {"inplace_buffers": False},
    "scheduler.allow_buffer_reuse": {"allow_buffer_reuse": False},
    "scheduler.memory_planning": {"memory_planning": False},
    "scheduler.reorder_for_peak_memory": {"reorder_for_peak_memory": False},
    "scheduler.loop_ordering_after_fusion": {"loop_ordering_after_fusion": False},
    "lowering.layout_optimization": {"layout_optimization": False},
    "lowering.comprehensive_padding": {"comprehensive_padding": False},
    "lowering.constant_and_index_propagation": {"constant_and_index_propagation": False},
    "lowering.split_reductions": {"split_reductions": False},
    "lowering.force_pointwise_cat": {"max_pointwise_cat_inputs": 0},
    "lowering.emulate_precision_casts": {"emulate_precision_casts": True},
}
#: The pass over each graph of AOTAutograd that puts tensors in the place of Python's numbers.
NUMBERS = "aot.tensorify_python_scalars"
#: What takes tensors out of functional ones.
UNWRAPPING = "functionalization.from_fun"
#: Parts of a compile that we can do instead, by unit.
PLAIN_PARTS = {
    f"partitioner.{MIN_CUT}": Plain.EVERYTHING_SAVED,
    f"partitioner.{MIN_CUT}/{CHOICE}": Plain.CHOICE,
    f"partitioner.{MIN_CUT}/{CUTTING}": Plain.CUTTING,
    f"partitioner.{RNG}": Plain.RANDOM_SAVED,
    f"partitioner.{RNG_NOTICE}": Plain.RANDOM_NOTICED,
    f"partitioner.{CLASSES}": Plain.CLASSES,
    "runtime_wrappers.RuntimeWrapper": Plain.RUNTIME_WRAPPER,
    "runtime_wrappers.RuntimeWrapper/_apply_input_mutations": Plain.WRITING,
    "runtime_wrappers.RuntimeWrapper/_replay_output_aliases": Plain.VIEWS,
    "functionalization.ViewMetaSequence": Plain.SEQUENCES,
    "functionalization.gen_alias_from_base": Plain.ALIASES,
    "functionalization.FunctionalTensor/to": Plain.CONVERSIONS,
    "functionalization._get_mutation_counters": Plain.COUNTS,
    "runtime_wrappers.AOTDispatchAutograd": Plain.AUTOGRAD_FUNCTION,
    "runtime_wrappers.AOTDispatchSubclassWrapper": Plain.SUBCLASSES,
    "codegen.CppPrinter": Plain.INDICES,
    "codegen.PythonPrinter": Plain.SIZES_IN_PYTHON,
    "codegen.SizeVarAllocator/_simplify_with_ranges": Plain.RANGES,
    "codegen.CppKernel": Plain.KERNELS,
    CXX: Plain.CXX,
    "codegen.CppTile2DKernel": Plain.TILES,
    "codegen.PythonWrapperCodegen/codegen_reinterpret_view": Plain.WRAPPER_VIEWS,
    "codegen.PythonWrapperCodegen/make_allocation": Plain.WRAPPER_BUFFERS,
    "codegen.PythonWrapperCodegen/make_buffer_reuse": Plain.WRAPPER_REUSE,
    "codegen.buffer_reuse_key": Plain.WRAPPER_KEYS,
    "codegen.PythonWrapperCodegen/codegen_args": Plain.WRAPPER_ARGUMENTS,
    "codegen.PythonWrapperCodegen/_generate_index_put_fallback": Plain.WRAPPER_INDEX_PUT,
    "codegen.PythonWrapperCodegen/_generate_scatter_fallback": Plain.WRAPPER_SCATTER,
    "codegen.MultiOutputLine/codegen": Plain.WRAPPER_RESULTS,
    "codegen.CppVecKernel._load_or_store_non_contiguous": Plain.GATHERS,
    "codegen.CppVecKernel.reduction": Plain.REDUCTIONS,
    "codegen.CppKernel.reduction": Plain.REDUCTIONS,
    "functionalization._check_if_mutation_can_be_in_graph": Plain.IN_GRAPH,
    "functionalization.InputAliasInfo/mutation_type": Plain.WRITTEN,
    UNWRAPPING: Plain.UNWRAPPED,
    "functionalization.disable_autocast": Plain.AUTOCAST,
    "functionalization.create_synthetic_base_metadata": Plain.BASES,
    "functionalization.compute_overlapping_inputs": Plain.OVERLAPS,
    "runtime_wrappers._compute_indices_of_inps_to_detach": Plain.DETACHED,
    "runtime_wrappers.ViewAndMutationMeta/__post_init__": Plain.KINDS,
    NUMBERS: Plain.NUMBERS,
    "functionalization.set_partitioner_tag_must_be_in_forward": Plain.TAGS_FORWARD,
    "functionalization.set_partitioner_tag_must_be_in_backward": Plain.TAGS_BACKWARD,
    "functionalization.set_partitioner_tag_is_backward": Plain.TAGS_OF_GRADIENTS,
    "runtime_wrappers.collect_fw_donated_buffer_idxs": Plain.DONATED,
    "runtime_wrappers.collect_bw_donated_buffer_idxs": Plain.DONATED_PLACES,
    "runtime_wrappers.AOTDedupeWrapper": Plain.OUTERMOST,
    "runtime_wrappers.AOTSyntheticBaseWrapper": Plain.OUTERMOST,
}


def redo_of(stage: Stage, unit: str) -> tuple[str, ...]:
    """Lines that switch the unit off or let PyTorch's bisector look for it; of AOTAutograd few have one."""
    name = unit.partition(".")[2]
    lines: list[str] = []
    if unit in SETTINGS:
        lines = [f"torch._inductor.config.{k} = {v!r}" for k, v in SETTINGS[unit].items()]
    elif option := next((o for o in opted() if o.made_by is not None and unit == f"{stage}.{o.name}"), None):
        lines = [f"torch._inductor.config.{option.option}.pop({name!r}, None)"]
    elif stage in (Stage.PRE_GRAD, Stage.JOINT, Stage.POST_GRAD) and name:
        observed = name.partition("/")[0].replace("pass_patterns[", "PASS_PATTERN_").rstrip("]").upper()
        lines = [f"TORCHINDUCTOR_DISABLED_PASSES={observed} python repro.py  # torch 2.13 and later"]
        if "/" in name:
            lines.append("torch._inductor.config.pattern_matcher = False  # switches every pattern off")
    elif stage is Stage.DECOMPOSITION and name:
        lines = [f"torch._inductor.decomposition.decompositions.pop(torch.ops.{name})"]
    elif stage is Stage.LOWERING and name:
        op = f"torch.ops.{name}"
        lines = [f"torch._inductor.lowering.lowerings[{op}] = torch._inductor.lowering.fallback_handler({op})"]
    elif stage is Stage.SCHEDULER and not name.startswith(_LOOPS):
        lines = ["torch._inductor.config.max_fusion_size = 1  # no fusion"]
    elif unit.startswith("codegen.CppVec"):
        lines = ["torch._inductor.config.cpp.simdlen = 1  # no vectorised code"]
    elif unit == CXX:
        flags = "torch._inductor.cpp_builder._get_optimization_cflags"
        lines = [f"{flags} = (lambda get: lambda *a, **k: (get(*a, **k)[0] + [{UNVECTORISED!r}], []))({flags})"]
    elif unit == NUMBERS:
        lines = ["TENSORIFY_PYTHON_SCALARS=0 python repro.py"]
    elif unit == "partitioner.fx_graph_cse":
        lines = ["torch._functorch.config.cse = False"]
    elif stage is Stage.PARTITIONER and MIN_CUT in unit:
        lines = [
            "torch._inductor.compile_fx.min_cut_rematerialization_partition = lambda joint, inputs, compiler, **more: "
            "torch._functorch.partitioners.default_partition(joint, inputs, **more)  # computes less again"
        ]
    elif stage is Stage.DYNAMO:
        lines = ['torch.compile(fn, backend="eager")']
    if stage in _SUBSYSTEMS:
        lines.append("python -m torch._inductor.compiler_bisector run python repro.py")
        backend = "aot_eager_decomp_partition" if stage is Stage.DECOMPOSITION else "inductor"
        lines.append(
            f"TORCH_BISECT_BACKEND={backend} TORCH_BISECT_SUBSYSTEM={_SUBSYSTEMS[stage]} TORCH_BISECT_MAX=-1 "
            "python repro.py  # -1: none of them; raise it to find the first that is wrong"
        )
    return tuple(lines)


def bug_class(kinds: Sequence[Kind], stage: str, unit: str) -> BugClass:
    """The bug class that kinds, stage and unit point to."""
    if stage == "decomposition":
        return BugClass.IOD
    if {Kind.ALIAS, Kind.IDENTITY, Kind.MUTATION} & set(kinds):
        return BugClass.BAM
    if set(kinds) <= LAYOUT_KINDS:
        return BugClass.ILP
    if Kind.DTYPE in kinds:
        return BugClass.IOT
    if unit.startswith(("pre_grad.", "joint.", "freezing.", "post_grad.")):
        return BugClass.UGO
    if stage in ("aot", "partitioner"):  # what they are for is to make graphs without writes, and to write back
        return BugClass.BAM
    return BugClass.KC
