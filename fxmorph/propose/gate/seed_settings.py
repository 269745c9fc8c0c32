"""Settings of ``torch._inductor.config`` that a proposed seed may be compiled under.

Only those that change what is compiled and leave its meaning alone.  None that writes files or starts programs
(``trace.enabled``, ``save_args``, ``compile_threads``), none that changes results on purpose (``use_fast_math``,
``fallback_random``, ``keep_output_stride``), none that drops checks (``assert_indirect_indexing``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from fxmorph.propose.proposal import Setting, Unsupported

#: Bound of numbers in settings, either sign.
MOST = 1024

_PASSES = """
apply_gumbel_max_trick b2b_gemm_pass batch_fusion constant_and_index_propagation decompose_mem_bound_mm
efficient_conv_bn_eval_fx_passes enable_auto_functionalized_v2 enable_linear_binary_folding freezing
force_fuse_int_mm_with_mul group_fusion joint_graph_constant_folding optimize_scatter_upon_const_tensor
partitioned_scatter_enabled pattern_matcher permute_fusion post_grad_fusion_options pre_grad_fusion_options
split_cat_fx_passes use_joint_graph_passes use_mixed_mm use_post_grad_passes use_pre_grad_passes
"""
_LAYOUT = """
can_inplace_pad_graph_input comprehensive_padding conv_1x1_as_mm disable_padding_cpu force_layout_optimization
force_shape_pad inplace_padding layout_optimization pad_channels_last padding_alignment_bytes padding_stride_threshold
shape_padding
"""
_LOWERING = """
delay_realize_cheap_outputs expand_dimension_for_pointwise_nodes force_pointwise_cat max_pointwise_cat_inputs
min_num_split online_softmax realize_cpu_acc_reads_threshold realize_cpu_opcount_threshold realize_opcount_threshold
realize_reads_threshold split_reductions unroll_reductions_threshold
"""
_SCHEDULING = """
aggressive_fusion allow_buffer_reuse combo_kernels epilogue_fusion epilogue_fusion_first inplace_buffers
loop_index_inversion_in_fusion loop_ordering_after_fusion loop_reindexing_after_fusion max_fusion_size memory_planning
pick_loop_orders prologue_fusion reorder_for_locality reorder_for_peak_memory size_threshold_for_succ_based_strategy
use_dce
"""
_CODE = """
cpp.enable_concat_linear cpp.enable_loop_tail_vec cpp.enable_tiling_heuristics cpp.fallback_scatter_reduce_sum
cpp.max_horizontal_fusion_size cpp.min_chunk_size cpp.no_redundant_loops cpp.simdlen cpp.weight_prepack
triton.coalesce_tiling_analysis triton.cooperative_reductions triton.persistent_reductions triton.prefer_nd_tiling
triton.tile_reductions triton.use_block_ptr
"""
ALLOWED = frozenset(f"{_PASSES} {_LAYOUT} {_LOWERING} {_SCHEDULING} {_CODE}".split())


def allowed_settings(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings as they are; raises :class:`Unsupported`, which names the first that may not be set so."""
    for name, value in settings.items():
        if name not in ALLOWED:
            raise Unsupported(f"setting {name}")
        for number in _numbers(value):
            if not isfinite(number) or abs(number) > MOST:
                raise Unsupported(f"setting {name} of {number}; at most {MOST}")
    return dict(settings)


def _numbers(value: Setting | Mapping[str, Any]) -> Iterator[bool | int | float]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers(part)
    else:
        yield value
