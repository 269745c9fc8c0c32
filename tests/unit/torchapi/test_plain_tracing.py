"""Decisions of AOTAutograd that are made by us: where torch is right they are the same."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import torch
from torch._functorch._aot_autograd import graph_compile, schemas
from torch._functorch._aot_autograd.functional_utils import _check_if_mutation_can_be_in_graph
from torch._subclasses.fake_tensor import FakeTensorMode

from fxmorph.torchapi.compiling import reset
from fxmorph.torchapi.plain_tracing import (
    plain_donation,
    plain_kinds_of_writes,
    plain_numbers_of_kinds,
    plain_place_of_writes,
)

#: Of the arguments, those that torch refuses together with others.
_STORAGE, _RESIZE = 5, 6


def _cases() -> list[tuple[bool, ...]]:
    every = itertools.product((False, True), repeat=8)
    return [c for c in every if not c[_STORAGE] and not c[_RESIZE]]


def _answers(function: Any) -> list[bool]:
    return [bool(function(*case)) for case in _cases()]


def test_our_place_of_writes_is_torchs() -> None:
    wanted = _answers(_check_if_mutation_can_be_in_graph)
    with plain_place_of_writes():
        made = _answers(schemas._check_if_mutation_can_be_in_graph)
    assert made == wanted and len(set(wanted)) == 2


def test_what_may_be_overwritten_is_torchs() -> None:
    with FakeTensorMode():
        given, result, kept = torch.ones(3), torch.ones(3), torch.ones(4)
    lists: tuple[list[Any], ...] = [given, None], [result], [], [given, kept, result[1:], None]
    wanted = graph_compile.collect_fw_donated_buffer_idxs(*lists)
    with plain_donation():
        assert graph_compile.collect_fw_donated_buffer_idxs(*lists) == wanted == [1]


def test_our_kinds_of_writes_are_torchs() -> None:
    def kinds() -> list[str]:
        infos = (
            schemas.InputAliasInfo(
                is_leaf=True,
                mutates_data=data,
                mutates_metadata=metadata,
                mutations_hidden_from_autograd=hidden,
                mutations_under_no_grad_or_inference_mode=False,
                mutation_inductor_storage_resize=False,
                mutates_storage_metadata=False,
                requires_grad=grad,
                keep_input_mutations=keep,
            )
            for data, metadata, hidden, grad, keep in itertools.product((False, True), repeat=5)
        )
        return [info.mutation_type.name for info in infos]

    wanted = kinds()
    with plain_kinds_of_writes():
        made = kinds()
    assert made == wanted and len(set(wanted)) == 3


def test_our_numbers_of_kinds_are_torchs() -> None:
    made: list[Any] = []
    original = schemas.ViewAndMutationMeta.__post_init__

    def kept(self: Any) -> None:
        original(self)
        made.append(self)

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.mul_(2)
        product = x * y
        return product.view(-1), product[0], y.view(-1), x, y + 1

    def numbers(meta: Any) -> dict[str, Any]:
        meta.__post_init__()
        return {name: value for name, value in vars(meta).items() if "num_" in name or "indices" in name}

    reset()
    with mock.patch.object(schemas.ViewAndMutationMeta, "__post_init__", kept):
        torch.compile(program, backend="aot_eager")(torch.ones(2, 3), torch.ones(2, 3, requires_grad=True))
    wanted = [numbers(meta) for meta in made]
    with plain_numbers_of_kinds():
        assert [numbers(meta) for meta in made] == wanted
    assert any(counted["num_outputs_aliased"] == 3 for counted in wanted)
