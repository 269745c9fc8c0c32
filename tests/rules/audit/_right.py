"""Right rules: the strongest level that is true where it is plain, else what they claim (EXACT_REAL is safe)."""

TRUTH = {}


def right(level, names):
    for name in names.split():
        TRUTH[name] = {"level": level}


right(
    "BIT_EXACT",
    """
right_int16_square_in_int32 right_uint8_absolute_difference_in_int16 right_uint8_average_in_int16 right_int8_neg_in_int16
right_remainder_as_and right_floor_division_by_shift right_zero_point_in_int16 right_int8_dot_in_int16
right_byte_trip_through_half right_add_and_subtract right_product_by_shift
right_threshold_as_where right_leaky_relu_as_where right_nan_to_num_by_selects
right_half right_eighth right_tenth_of_single
right_sum_of_strided right_square_by_columns right_integer_sum_of_flipped right_integer_maximum_of_flipped
right_bool_sum_as_or right_sum_of_low_pair right_odd_by_and right_mask_product_as_where right_compare_in_int64
right_complement_of_clone right_scale_clones right_xor_swap_of_clones
right_argmax_of_equality right_argmin_by_stable_sort right_ceil_by_floor right_median_lower right_sign_by_two_comparisons
right_index_of_larger
right_power_zero right_trunc_by_where right_isnan_by_comparison right_isfinite_by_difference right_subtract_zero
right_neg_as_product right_masked_fill_as_where
right_sum_in_int64 right_any_by_sum right_all_by_count right_relu_of_clone
""",
)
right(
    "INDEX_EXACT",
    """
right_index_wrapped right_same_view_at_its_offset right_drop_first_row right_flatten_contiguous right_diagonal_at_offset
right_row_by_stride right_transpose_by_strides right_swap_rows_through_clone right_iota_int8_short right_all_parts
right_flat_index_int64 right_unsqueeze_negative right_flatten_of_transposed
""",
)
right("BIT_EXACT_MOD_ZERO_SIGN", "right_clamp_lower_first right_leaky_relu_as_maximum right_negated_difference")
right(
    "UNDER_PRECONDITION",
    """
right_clamp_before_uint8_cast right_hardshrink_closed_interval right_isclose_by_formula right_where_nonzero_as_product
right_bucketize_counts_below right_relu6_gate_closed right_maximum_by_select_without_nan right_not_less_without_nan
""",
)
right(
    "EXACT_REAL",
    """
right_huber_as_scaled_smooth_l1 right_normalize_clamps_norm right_logit_of_clamped right_celu_by_where
right_third_in_full right_deg2rad right_log2_by_log right_gelu_by_erf right_exp2_by_exp
right_sigmoid_of_strided right_sum_of_flipped right_product_of_one_row 
right_tree_sum_with_rest right_matmul_in_tiles_with_rest right_product_in_two
right_sample_variance right_scalar_tensor_expanded right_mean_as_quotient right_sum_over_expanded
right_average_pool_of_padded right_midpoint_of_halves right_real_part_of_square
""",
)
right("BIT_EXACT", "right_average_by_carry right_compare_with_half_in_double")
right("UNDER_PRECONDITION", "right_less_by_difference")
