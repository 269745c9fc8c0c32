"""Which overloads are looked for among the calls of torch's own tests."""

from __future__ import annotations

import torch

from fxmorph.torchapi.operator_samples import _is_composite, _namesakes, _Recorder, operator_tests

aten = torch.ops.aten


def test_what_the_dispatcher_takes_apart_is_known() -> None:
    assert _is_composite(aten.upsample_nearest2d.vec)
    assert not _is_composite(aten.add.Tensor)
    assert not _is_composite(aten.pow.int_float)  # TorchScript's own, which the dispatcher has never heard of


def test_calls_of_every_operator_can_be_recorded_with_all_overloads_of_its_name() -> None:
    for test in operator_tests():
        _Recorder(test.name, torch.float32, _namesakes(test), kin=True)
