"""Passes in the forms in which people write them: the wrong ones are found with no seed, the right ones not accused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import right_passes
import torch
import wrong_passes
from torch import fx

from fxmorph.core.exits import Exit
from fxmorph.inductor.own.check import Count
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Status
from fxmorph.testing import check_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")

#: What is wrong of each.
WRONG = {
    "merge_splits": {"value", "shape"},
    "fold_add_into_addmm": {"value", "dtype", "shape", "raises"},
    "sum_by_default": {"value", "shape", "dtype", "raises"},
    "SumOfProducts": {"dtype", "value"},
    "drop_copies": {"alias", "value"},
    "drop_what_nothing_reads": {"mutation"},
    "fold_casts": {"value", "alias"},
    "FoldTransposes": {"value", "shape"},
    "FoldSlices": {"value", "shape"},
    "FoldMax": {"value", "dtype", "shape"},
    "UnpackReductions": {"raises", "dtype"},
    "HalfBeforeAdding": {"dtype"},
    "SquaresAsProducts": {"value"},
    "ScaleRows": {"value", "raises"},
    "NormFusion": {"value"},
    "register_softmax": {"value"},
    "GELU_FOR_SILU": {"value"},
    "rewrite_differences": {"value"},
    "PIPELINE": {"value"},
    "GeluByTanh": {"value"},
    "drop_dropout": {"dtype"},
    "merge_equal_calls": {"dtype"},
    "drop_zeros": {"dtype", "shape", "value"},
    "fuse_scales": {"value"},
    "split_rolls": {"raises"},
    "casts_at_once": {"value"},
    "joined_chunks": {"value", "shape"},
    "bounded_by_relu6": {"dtype", "raises"},
    "copies_that_are_read": {"value"},
}
RIGHT: dict[str, dict[str, Any]] = {
    "remove_detach": {}, "full_like_as_full": {}, "view_to_reshape": {}, "common_calls": {}, "AddsToOne": {},
    "SquareAware": {}, "FoldPermutes": {}, "FoldSlices": {}, "SplitToSlices": {}, "Fusion": {},
    "NeedsALevel": {"level": 2}, "register_neg": {}, "PAIR": {}, "Manager": {}, "ReluByClamp": {},
    "fuse_pointwise": {}, "float_methods": {}, "remove_assertions": {},
    "fold_constants": {}, "rewrite_scaled": {},
}  # fmt: skip


#: The others, of the same forms and sorts of errors, take some five seconds each, too.
QUICK = frozenset(
    "merge_splits fold_add_into_addmm SumOfProducts drop_copies drop_what_nothing_reads FoldTransposes UnpackReductions"
    " HalfBeforeAdding NormFusion register_softmax PIPELINE GeluByTanh merge_equal_calls drop_zeros fuse_scales"
    " joined_chunks bounded_by_relu6 copies_that_are_read"
    " view_to_reshape FoldPermutes PAIR ReluByClamp fold_constants rewrite_scaled".split()
)


#: So many graphs are made for a right pass, and up to so many for a wrong one, whatever the machine.
FOR_RIGHT, FOR_WRONG = 200, 600


def with_markers(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", with_markers(WRONG))
def test_a_wrong_pass_is_found_without_a_seed(name: str) -> None:
    with pytest.raises(AssertionError, match="WRONG") as error:
        check_pass(getattr(wrong_passes, name), (), graphs=FOR_WRONG)
    said = str(error.value).splitlines()[1].strip()
    assert set(said.partition(":")[0].split(", ")) & WRONG[name], said


@pytest.mark.parametrize("name", with_markers(RIGHT))
def test_a_right_pass_fires_and_is_not_accused(name: str) -> None:
    assert check_pass(getattr(right_passes, name), (), args=RIGHT[name], graphs=FOR_RIGHT) > 0


def test_the_guilty_step_of_a_pipeline_is_named() -> None:
    with pytest.raises(AssertionError, match="step 2 of 3, clamps_as_relu"):
        check_pass(wrong_passes.PIPELINE, (), graphs=FOR_WRONG)


def tidy_sigmoids(graph: fx.Graph) -> None:
    """Looks for what never comes, and removes dead code."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sigmoid.default):
        if node.meta.get("no such note"):
            graph.erase_node(node)
    graph.eliminate_dead_code()


def tidy(graph: fx.Graph) -> None:
    graph.eliminate_dead_code()


def test_dead_code_alone_is_no_test_of_a_pass_that_is_for_something_else() -> None:
    told = r"nothing was checked; it changed nothing but dead code and how calls are written; tried .*sigmoid"
    with pytest.raises(AssertionError, match=told):
        check_pass(tidy_sigmoids, (), graphs=100)
    assert check_pass(tidy, (), graphs=100) > 0


def test_what_cannot_be_judged_was_not_checked() -> None:
    count = Count()
    for number in range(3):
        count.add(Pair("p", "made", "made", str(number), 0, Status.UNSUPPORTED, reason="no kernel of ns::op"))
    assert (count.fired, count.code()) == (3, Exit.NOTHING_RAN)
    assert count.nothing_checked == "none could be judged: no kernel of ns::op"
    count.add(Pair("p", "made", "made", "4", 0, Status.CLEAN))
    assert (count.code(), count.nothing_checked) == (Exit.OK, "")
