"""Under which configurations the variants of a campaign are compiled: a covering array of what must change no result.

Every pair of values of two axes is in one of the rows (AETG: Cohen, Dalal, Fredman and Patton, 1997), so that what
goes wrong where two settings meet is met within some thirty variants.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fxmorph.core.config import Settings
from fxmorph.model import Case, Kernels

#: Candidates that each row is the best of, by the pairs that it adds.
CANDIDATES = 24


@dataclass(frozen=True)
class Axis:
    """Values of one thing; the first is what a case has anyway.

    ``where``: ``compile`` an argument of ``torch.compile``, ``inductor`` a setting, ``case`` a field of the case.
    ``compiled``: there is nothing to it where kernels are interpreted; ``device``: nor on another one than this.
    """

    where: str
    name: str
    values: tuple[Any, ...]
    compiled: bool = False
    device: str = ""


def _generated(device: str, name: str, *values: Any) -> Axis:
    """A setting of what generates code for a device, with what it is set to."""
    return Axis("inductor", name, (None, *values), compiled=True, device=device)


def _options(fusions: str, patterns: str) -> dict[str, dict[str, int]]:
    """Passes that are off by default, made to fire on few operators: pairs are fused, and few parts are a cat."""
    pairs = {name: {"min_fuse_set_size": 2} for name in fusions.split()}
    return pairs | {name: {"threshold_to_cat": 2} for name in patterns.split()}


#: Of torch 2.13; a release that does not have one of them does nothing for its name.
_PRE_GRAD = _options(
    "batch_linear batch_linear_lhs batch_layernorm batch_tanh batch_sigmoid batch_relu batch_detach batch_nan_to_num"
    " batch_clamp batch_dropout",
    "normalization_pass remove_split_with_size_one_pass merge_getitem_cat_pass merge_stack_tahn_unbind_pass"
    " merge_splits_pass mutate_cat_pass split_cat_pass unbind_stack_pass split_cat_to_slices_pass"
    " unbind_cat_to_view_pass split_stack_to_cats_pass unbind_stack_to_slices_pass"
    " move_reshape_out_of_split_stack_pass einsum_to_pointwise_pass",
)
_POST_GRAD = _options(
    "batch_linear_post_grad batch_aten_tanh batch_aten_sigmoid batch_aten_relu batch_aten_add batch_aten_sub"
    " batch_aten_div batch_aten_mul",
    "normalization_aten_pass split_cat_aten_pass select_cat_aten_pass unbind_stack_aten_pass"
    " move_view_after_cat_aten_pass decompose_mm_pass",
)

AXES: tuple[Axis, ...] = (
    Axis("compile", "dynamic", (None, True)),
    Axis("case", "dtype", ("", "bfloat16", "float64", "float16")),
    Axis("case", "context", ("", "inference", "autocast")),
    Axis("inductor", "freezing", (None, True)),
    Axis("inductor", "pre_grad_fusion_options", (None, _PRE_GRAD)),
    Axis("inductor", "post_grad_fusion_options", (None, _POST_GRAD)),
    Axis("inductor", "efficient_conv_bn_eval_fx_passes", (None, True)),
    Axis("inductor", "epilogue_fusion", (None, False)),
    Axis("inductor", "layout_optimization", (None, False)),
    Axis("inductor", "realize_reads_threshold", (None, 1)),
    Axis("inductor", "realize_opcount_threshold", (None, 1)),
    Axis("inductor", "max_fusion_size", (None, 2)),
    Axis("inductor", "loop_ordering_after_fusion", (None, False)),
    Axis("inductor", "aggressive_fusion", (None, True)),
    Axis("inductor", "inplace_buffers", (None, False)),
    Axis("inductor", "allow_buffer_reuse", (None, False)),
    Axis("inductor", "pick_loop_orders", (None, False)),
    Axis("inductor", "unroll_reductions_threshold", (None, 1)),
    Axis("inductor", "force_pointwise_cat", (None, True)),
    Axis("inductor", "comprehensive_padding", (None, False)),
    Axis("inductor", "emulate_precision_casts", (None, True), compiled=True),
    Axis("inductor", "memory_planning", (None, True), compiled=True),
    Axis("inductor", "cpp_wrapper", (None, True), compiled=True),
    _generated("cpu", "cpp.simdlen", 1, 256),
    _generated("cpu", "cpp.min_chunk_size", 1),
    _generated("cpu", "cpp.max_horizontal_fusion_size", 1),
    _generated("cuda", "combo_kernels", True),
    _generated("cuda", "split_reductions", False),
    _generated("cuda", "permute_fusion", True),
    _generated("cuda", "force_shape_pad", True),
    _generated("cuda", "b2b_gemm_pass", True),
    _generated("cuda", "online_softmax", False),
    _generated("cuda", "triton.persistent_reductions", False),
    _generated("cuda", "triton.cooperative_reductions", True),  # forced, they refuse scans and sorts
    _generated("cuda", "triton.mix_order_reduction", True, False),
    _generated("cuda", "triton.prefer_nd_tiling", True),
    _generated("cuda", "triton.max_tiles", 1, 3),
    _generated("cuda", "triton.tiling_prevents_pointwise_fusion", False),
    _generated("cuda", "triton.tiling_prevents_reduction_fusion", False),
    _generated("cuda", "triton.coalesce_tiling_analysis", False),
    _generated("cuda", "triton.use_block_ptr", True),
    _generated("cuda", "triton.dense_indexing", True),
)


def axes_of(device: str) -> list[Axis]:
    """The axes of a device in the installed torch."""
    from fxmorph.torchapi.compiling import has_setting

    here = (axis for axis in AXES if axis.device in ("", device))
    return [axis for axis in here if axis.where != "inductor" or has_setting(axis.name)]


#: A row: the value of each axis by its name.
Row = Mapping[str, Any]


def covering_rows(axes: Sequence[Axis], rng: random.Random) -> Iterator[Row]:
    """Rows until every pair of values of two axes was in one; first of all the one of what a case has anyway."""
    left = {
        ((a.name, i), (b.name, j))
        for a, b in itertools.combinations(axes, 2)
        for i in range(len(a.values))
        for j in range(len(b.values))
    }

    def pairs(row: Sequence[int]) -> set[tuple[tuple[str, int], tuple[str, int]]]:
        return {
            ((axes[m].name, row[m]), (axes[n].name, row[n])) for m, n in itertools.combinations(range(len(axes)), 2)
        }

    row = [0] * len(axes)
    while left:
        left -= pairs(row)
        yield {axis.name: axis.values[i] for axis, i in zip(axes, row, strict=True)}
        drawn = [[rng.randrange(len(axis.values)) for axis in axes] for _ in range(CANDIDATES)]
        if left:  # one of the pairs that are left is in each, so that there is an end
            for candidate in drawn:
                for name, value in rng.choice(sorted(left)):
                    candidate[next(n for n, axis in enumerate(axes) if axis.name == name)] = value
        row = max(drawn, key=lambda candidate: len(left & pairs(candidate)))


class Configurations:
    """The rows of one campaign; what the user has set stays as it is, and what this torch does not have is left out."""

    def __init__(self, settings: Settings) -> None:
        told = {*dict(settings.compile), *dict(settings.inductor), *settings.given}
        axes = [axis for axis in axes_of(settings.device) if axis.name not in told]
        self._axes = {axis.name: axis for axis in axes}
        self._rows = tuple(covering_rows(axes, random.Random(f"configurations {settings.seed}")))

    def __len__(self) -> int:
        return len(self._rows)

    def under(self, case: Case, place: int) -> Case:
        """The case as the row of its place says."""
        interpreted = case.compile.kernels is not Kernels.GENERATED
        compile, inductor = dict(case.compile.options), dict(case.compile.inductor)
        for name, value in self._rows[place % len(self._rows)].items():
            axis = self._axes[name]
            if value == axis.values[0] or (axis.compiled and interpreted):
                continue
            if axis.where == "case":
                case = replace(case, **{name: value})
            else:
                (compile if axis.where == "compile" else inductor)[name] = value
        config = replace(case.compile, options=_pairs(compile), inductor=_pairs(inductor))
        return replace(case, compile=config)


def _pairs(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(settings.items()))
