"""Two exceptions are the same by type, innermost frame in torch, and operator."""

from __future__ import annotations

import pytest
import torch

from fxmorph.programs.signature import Signature, signature_of

pytestmark = pytest.mark.usefixtures("torch_quiet")


def raised(call: object) -> BaseException:
    try:
        call()  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_frame_is_the_innermost_in_torch() -> None:
    assert signature_of(raised(lambda: torch.zeros(2).nothing)).frame == ""
    got = signature_of(raised(lambda: torch.nn.Linear(3, 4).load_state_dict({})))
    assert got == Signature("RuntimeError", "torch/nn/modules/module.py:load_state_dict")


def test_the_first_cause_counts_and_the_operator_of_the_outermost() -> None:
    def fails() -> None:
        try:
            torch.nn.Module().get_parameter("w")
        except AttributeError as error:
            raise RuntimeError("LoweringException\n target: aten.clamp.default\n args[0]: ...") from error

    got = signature_of(raised(fails))
    assert got == Signature("AttributeError", "torch/nn/modules/module.py:get_parameter", "aten.clamp.default")
    assert str(got) == "AttributeError torch/nn/modules/module.py:get_parameter aten.clamp.default"


def test_the_text_of_the_message_does_not_count() -> None:
    one, other = (raised(lambda n=n: torch.zeros(n) @ torch.zeros(n + 1)) for n in (2, 3))
    assert str(one) != str(other)
    assert signature_of(one) == signature_of(other)
