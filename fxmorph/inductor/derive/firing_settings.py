"""Inductor settings under which a pattern entry can fire at all."""

from __future__ import annotations

from typing import Any

#: By the beginning of the entry's full name; all that fit are taken.
_SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("freezing.", {"freezing": True}),
    ("freezing.binary_folding_pass", {"enable_linear_binary_folding": True}),
    ("freezing.pass_patterns[0]/addmm_patterns_init.", {"cpp.enable_concat_linear": True}),
    ("freezing.pass_patterns[4]/_register_concat_linear", {"cpp.enable_concat_linear": True}),
    ("post_grad.pass_patterns[1]/mm_plus_mm", {"max_autotune_gemm": True}),
    ("post_grad.partitioned_scatter", {"partitioned_scatter_enabled": True}),
    ("pre_grad.efficient_conv_bn_eval_pass", {"efficient_conv_bn_eval_fx_passes": True}),
    ("pre_grad.apply_gumbel_max_trick_pass", {"apply_gumbel_max_trick": True}),
)
#: Pass lists that are not options of ``pre_grad_fusion_options`` or ``post_grad_fusion_options``.
_NO_OPTION = ("efficient_conv_bn_eval_pass", "apply_gumbel_max_trick_pass", "b2b_gemm_pass", "partitioned_scatter")
#: Options that merge only where a concatenation has at least so many inputs (10 by default).
_THRESHOLDS = frozenset(
    "split_cat_to_slices_pass unbind_cat_to_view_pass split_stack_to_cats_pass unbind_stack_to_slices_pass "
    "move_reshape_out_of_split_stack_pass split_cat_aten_pass select_cat_aten_pass".split()
)


def settings_of(full_name: str) -> tuple[tuple[str, Any], ...]:
    """(setting, value) pairs, empty for what is on by default."""
    found: dict[str, Any] = {}
    for start, settings in _SETTINGS:
        if full_name.startswith(start):
            found.update(settings)
    stage, _, rest = full_name.partition(".")
    option = rest.partition("/")[0]
    opt_in = stage in ("pre_grad", "post_grad") and "[" not in option and not option.startswith(_NO_OPTION)
    if opt_in:
        found[f"{stage}_fusion_options"] = {option: {"threshold_to_cat": 2} if option in _THRESHOLDS else {}}
    return tuple(sorted(found.items()))
