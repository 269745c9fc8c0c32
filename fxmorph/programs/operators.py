"""Facts about aten's operators that more than one room needs: their names, what they write, make, move and compare.

Tables hold names as schemas have them, without namespace (which is PyTorch's) and overload: ``add``, ``add_``.
"""

from __future__ import annotations

from fxmorph.torchapi.dispatch import OpOverload, schema_of

#: Namespaces of operators that tables speak of.
OWN_NAMESPACES = frozenset("aten prims prim inductor rngprims".split())
#: Operators whose result holds whatever its memory held before.
EMPTY = frozenset("empty empty_like new_empty empty_strided new_empty_strided empty_permuted".split())
COMPARISONS = frozenset("eq ne lt le gt ge".split())
#: Operators that write their running mean and variance (arguments 3 and 4, in training) and do not say so.
RUNNING_STATISTICS = frozenset("native_batch_norm cudnn_batch_norm miopen_batch_norm _batch_norm_impl_index".split())
#: Operators that copy, move or select elements and look at none.
MOVES = frozenset(
    """clone copy cat stack flip roll repeat index_select slice_scatter select_scatter diagonal_scatter
    as_strided_scatter diag_embed tril triu repeat_interleave gather scatter index index_put _unsafe_index
    _unsafe_index_put index_copy index_fill take constant_pad_nd unbind_copy split_copy permute_copy _reshape_copy
    pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d upsample_nearest1d upsample_nearest2d upsample_nearest3d masked_select
    masked_scatter embedding slice_backward select_backward im2col rot90 lift_fresh""".split()
)
#: Arguments of those that say where to, or from where.
POSITIONS = frozenset("index indices mask repeats".split())


def operator_name(overload: OpOverload) -> str:
    """``add_`` for ``aten.add_.Tensor``; ``mine::add_`` of an operator that is not PyTorch's, and may mean anything."""
    name: str = schema_of(overload).name
    return name.split("::")[1] if overload.namespace in OWN_NAMESPACES else name
