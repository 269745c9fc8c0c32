"""Of the steps of a tracing, and of the operators in it, which one is named."""

import torch
from torch import Tensor

from fxmorph.torchapi.traced_function import Step, first_wrong_step, operators_followed, tracing_watched


def added_to_a_column(x: Tensor, rows: Tensor, source: Tensor) -> Tensor:
    """Functional `index_add` gives rows where `index_add_` leaves columns."""
    return torch.zeros_like(x).index_add_(0, rows, source)


def test_a_layout_that_a_functional_form_loses_is_of_that_operator() -> None:
    columns = torch.randn(4, 9).t()
    with tracing_watched() as seen:
        compiled = torch.compile(added_to_a_column, backend="aot_eager")
        result = compiled(columns, torch.arange(9), torch.randn(9, 4))
    assert result.stride() == (4, 1), "a release that keeps the layout has nothing for this test"
    assert first_wrong_step(seen) is Step.NONE
    assert first_wrong_step(seen, laid_out=True) is Step.FUNCTIONALIZED
    assert operators_followed(seen, laid_out=True).lost == "aten.index_add_.default"


def test_a_write_through_a_view_that_is_lost_is_of_that_view() -> None:
    with tracing_watched() as seen:
        compiled = torch.compile(lambda x: (x.unfold(0, 1, 2).mul_(0.0), x.cumsum(0))[1], backend="aot_eager")
        result = compiled(torch.ones(5))
    assert not torch.equal(result, torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0])), "a release that is right has nothing"
    followed = operators_followed(seen)
    assert (followed.lost, followed.through) == ("aten.unfold.default", True)


def test_a_layout_that_all_steps_keep_is_of_none() -> None:
    columns = torch.randn(4, 9).t()
    with tracing_watched() as seen:
        torch.compile(lambda x: x.exp().mul_(2), backend="aot_eager")(columns)
    assert first_wrong_step(seen, laid_out=True) is Step.NONE
    assert operators_followed(seen, laid_out=True).lost == ""
