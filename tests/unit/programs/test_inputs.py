"""Input sets: frozen, rebuilt, and given other layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxmorph.programs.inputs import InputSet, Unsupported, flat_storage, relocate, spec_of
from fxmorph.torchapi.storages import storage_key

pytestmark = pytest.mark.usefixtures("torch_quiet")


def rebuilt(*values: Any) -> list[Any]:
    return InputSet.snapshot(values).rebuild()


def bits(t: torch.Tensor) -> list[int]:
    return flat_storage(t.detach()).view(torch.uint8).tolist()


def test_strides_and_offsets_are_kept() -> None:
    x = torch.arange(30.0).as_strided((3, 2), (2, 7), 4)
    (y,) = rebuilt(x)
    assert (y.shape, y.stride(), y.storage_offset()) == (x.shape, x.stride(), 4)
    assert bits(y) == bits(x)


def test_expanded_and_channels_last_inputs_stay_so() -> None:
    expanded = torch.ones(3, 1).expand(3, 4)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    a, b = rebuilt(expanded, image)
    assert a.stride() == (1, 0)
    assert b.is_contiguous(memory_format=torch.channels_last)


def test_shared_memory_is_shared_again_and_with_nothing_else() -> None:
    memory = torch.zeros(6)
    a, b, c = rebuilt(memory[:4], memory[2:], torch.zeros(6))
    a[2] = 7
    assert b[0] == 7
    assert storage_key(a) == storage_key(b) != storage_key(c)
    assert memory.tolist() == [0] * 6


def test_two_dtypes_may_share_memory() -> None:
    memory = torch.zeros(4)
    a, b = rebuilt(memory, memory.view(torch.int32))
    a[0] = 1.0
    assert b[0] == 0x3F800000


AGAIN = [lambda v: InputSet.snapshot(v).rebuild(), lambda v: relocate(v, "cpu", torch.float64)]


@pytest.mark.parametrize("again", AGAIN)
def test_views_of_one_tensor_are_again(again: Any) -> None:
    """Not so the compiler refuses this program: it makes a base of 18 elements and is given one of 20."""

    def program(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a.add_(1)
        return b.mul_(2) + 1, a

    base = torch.arange(20.0)
    values = [base[:12], base[6:18]]
    mine, theirs = again(values), again(values)
    assert mine[0]._base is mine[1]._base and mine[0]._base.shape == (20,)
    compiled = torch.compile(program, backend="aot_eager")
    assert all(map(torch.equal, compiled(*mine), program(*theirs)))
    alone = again([base[:12].clone(), base[6:18].clone()])
    assert alone[0]._base is None


def test_rebuilding_twice_gives_separate_memory() -> None:
    frozen = InputSet.snapshot([torch.zeros(2)])
    frozen.rebuild()[0].fill_(5)
    assert frozen.rebuild()[0].tolist() == [0, 0]


def test_what_requires_grad_is_a_leaf_again() -> None:
    x = torch.ones(2, requires_grad=True)
    a, b = rebuilt(x * 2, torch.nn.Parameter(torch.ones(2)))
    assert a.requires_grad and a.is_leaf
    assert b.requires_grad and b.is_leaf


def test_conjugate_and_negative_bits_are_kept() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    a, b = rebuilt(z.conj(), z.conj().imag)
    assert a.is_conj() and a.tolist() == [1 - 2j, 3 + 1j]
    assert b.is_neg() and b.tolist() == [-2, 1]


def test_odd_values_keep_their_bits() -> None:
    x = torch.tensor([0.0, -0.0, float("nan"), float("-inf"), 1e-45])
    assert bits(rebuilt(x)[0]) == bits(x)


def test_plain_values_are_copied() -> None:
    options = {"k": [1, 2]}
    (again,) = rebuilt(options)
    again["k"].append(3)
    assert options == {"k": [1, 2]}


def test_what_cannot_be_rebuilt_is_refused() -> None:
    quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    for value in (torch.eye(2).to_sparse(), [torch.ones(1)], quantised):
        with pytest.raises(Unsupported):
            InputSet.snapshot([value])


def test_empty_and_scalar_tensors_survive() -> None:
    a, b = rebuilt(torch.zeros(0, 3), torch.tensor(2.5))
    assert (a.shape, b.shape, float(b)) == ((0, 3), (), 2.5)


def test_specs_give_the_range_of_integers_only() -> None:
    whole, real = spec_of(torch.tensor([3, -1, 7])), spec_of(torch.tensor([3.0]))
    assert (whole.low, whole.high) == (-1, 7)
    assert (real.low, real.high) == (None, None)


def test_dtype_conversion_keeps_layout_sharing_and_integers() -> None:
    base = torch.arange(12.0)
    x, y, n = relocate([base.as_strided((3, 2), (1, 6), 2), base[4:], torch.arange(3)], "cpu", torch.float16)
    assert (x.dtype, x.stride(), x.storage_offset(), n.dtype) == (torch.float16, (1, 6), 2, torch.int64)
    y[0] = 100
    assert x[2, 0] == 100
