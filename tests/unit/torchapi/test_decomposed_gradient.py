"""Functions of autograd and the decomposed operators that they call."""

from __future__ import annotations

import pytest

from fxmorph.torchapi.decompose import decomposed_gradient


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        ("GluBackward0", "aten.glu_backward.default"),
        ("NllLossBackward0", "aten.nll_loss_backward.default"),
        ("MulBackward0", ""),
        ("NoSuchThingBackward0", ""),
    ],
)
def test_a_function_is_named_after_what_it_calls(function: str, operator: str) -> None:
    assert decomposed_gradient(function) == operator
