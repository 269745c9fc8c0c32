"""Programs of calls that torch's own tests make."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from fxmorph.core.operator_seeds import ListedOperator, OperatorProgram, Setting
from fxmorph.programs.load import SeedFailed, load_seed
from fxmorph.torchapi.operator_programs import (
    CALLS,
    FEWEST,
    MOST,
    TWINS,
    NoProgram,
    _accepted,
    _base_of,
    _calls,
    _Sample,
    _test,
    _twin,
    listed_operators,
    operator_program,
)
from fxmorph.torchapi.varied_calls import described


@pytest.fixture(scope="module")
def listed() -> dict[str, ListedOperator]:
    return {operator.name: operator for operator in listed_operators()}


def test_nine_of_ten_operators_are_listed(listed: dict[str, ListedOperator]) -> None:
    from fxmorph.torchapi.operator_samples import operator_tests

    assert len(listed) >= 0.9 * len(operator_tests())
    assert not {"randn", "bernoulli", "empty", "new_empty", "multinomial"} & listed.keys()
    assert listed["add"].dtypes[0] == "float32" and listed["add"].differentiable and listed["add"].in_place
    assert listed["bitwise_and"].dtypes[0] == "int64" and not listed["bitwise_and"].differentiable


@pytest.fixture
def no_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxmorph.torchapi.operator_programs.TWINS", 0)


@pytest.mark.parametrize("setting", list(Setting))
def test_a_program_runs_and_is_the_same_each_time(setting: Setting) -> None:
    seed = OperatorProgram("add", "float32", setting).seed()
    loaded = load_seed(seed)
    first, second = loaded.fresh(), loaded.fresh()
    assert first.fn is second.fn  # another function would be compiled anew for each set of values
    assert all(map(torch.equal, first.args, second.args))
    assert not any(a.data_ptr() == b.data_ptr() for a, b in zip(first.args, second.args, strict=True) if a.numel())
    out = first.drive(first.fn)
    calls = len(out) // (2 if setting.fused else 1)
    # In place one would write a tensor that is too small, and nothing is called twice.
    assert calls == (7 if setting is Setting.IN_PLACE else CALLS * (1 + TWINS))
    assert any(t.requires_grad for t in first.args) is setting.differentiated
    written = [not torch.equal(a, b) for a, b in zip(first.args, second.args, strict=True)]
    assert any(written) is (setting is Setting.IN_PLACE)


def test_calls_of_a_program_differ_in_more_than_values(monkeypatch: pytest.MonkeyPatch, no_twins: None) -> None:
    fn, tensors = operator_program(OperatorProgram("roll"))()
    given: list[str] = []
    monkeypatch.setitem(fn.__globals__, "called", lambda x, *args, **more: given.append(f"{x.shape} {args} {more}"))
    fn(*tensors)
    # Varied calls that roll a dimension which an empty tensor lacks are left out.
    assert CALLS / 2 < len(set(given)) == len(given) < CALLS
    assert len({text.rpartition("]) ")[2] for text in given}) > CALLS / 2  # most of them in what is no tensor


@pytest.mark.parametrize("name", ["add", "roll", "sum", "clamp", "neg", "nn.functional.softplus"])
@pytest.mark.parametrize("setting", [Setting.ALONE, Setting.CHANGED])
def test_a_twin_is_the_call_on_the_same_tensors_with_one_number_otherwise(
    name: str, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    fn, tensors = operator_program(OperatorProgram(name, setting=setting))()
    given: list[tuple[list[int], list[str]]] = []

    def called(*args: Any, **more: Any) -> torch.Tensor:
        leaves = tree_leaves((args, more))
        tensors = [id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        given.append((tensors, [repr(leaf) for leaf in leaves if not isinstance(leaf, torch.Tensor)]))
        return torch.ones(1)

    for key in [key for key in fn.__globals__ if key.startswith("called")]:
        monkeypatch.setitem(fn.__globals__, key, called)
    fn(*tensors)
    twins = [(a[1], b[1]) for a, b in itertools.pairwise(given) if a[0] == b[0]]
    assert bool(twins) is (name not in ("clamp", "neg"))  # which are called with tensors alone
    for one, other in twins:
        assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def test_several_operators_are_one_program(no_twins: None) -> None:
    def called(name: str) -> list[torch.Tensor]:
        fn, tensors = operator_program(OperatorProgram(name, setting=Setting.CHANGED))()
        return list(fn(*tensors))

    torch.manual_seed(0)
    alone = [*called("add"), *called("roll")]
    together = called("add+roll")
    assert [(t.shape, t.dtype) for t in together] == [(t.shape, t.dtype) for t in alone]
    with pytest.raises(NoProgram, match="no tests of an operator 'nosuch'"):
        operator_program(OperatorProgram("add+nosuch"))


def test_other_seeds_draw_other_values() -> None:
    make = operator_program(OperatorProgram("mul"))
    drawn = []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        drawn.append(make()[1][0])
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])


def test_what_there_is_not_is_said() -> None:
    with pytest.raises(NoProgram, match="no tests of an operator 'nosuch'"):
        operator_program(OperatorProgram("nosuch"))
    with pytest.raises(NoProgram, match="no samples of int64"):
        operator_program(OperatorProgram("nn.functional.gelu", "int64"))
    with pytest.raises(SeedFailed, match="that eager takes in part 99"):
        load_seed(OperatorProgram("add", part=99).seed()).fresh()


def test_every_other_changed_call_is_one_of_views_where_eager_takes_it(
    monkeypatch: pytest.MonkeyPatch, no_twins: None
) -> None:
    def viewed(name: str, part: int = 0) -> list[bool]:
        torch.manual_seed(0)
        fn, tensors = operator_program(OperatorProgram(name, setting=Setting.CHANGED, part=part))()
        seen: list[bool] = []

        def spy(called: Any) -> Any:
            def call(*args: Any, **more: Any) -> Any:
                given = [t for t in tree_leaves((args, more)) if isinstance(t, torch.Tensor)]
                seen.append(all(t._is_view() for t in given))
                assert seen[-1] or not any(t._is_view() for t in given)
                return called(*args, **more)

            return call

        for key in [key for key in fn.__globals__ if key.startswith("called")]:
            monkeypatch.setitem(fn.__globals__, key, spy(fn.__globals__[key]))
        fn(*tensors)
        return seen

    turns = viewed("addmm")
    assert turns == [place % 2 == 1 for place in range(len(turns))]
    # Not every order of dimensions has such a view.
    assert not all(seen for part in range(4) for seen in viewed("view", part)[1::2])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.complex64])
def test_a_view_of_a_base_is_the_value(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    value = torch.randn(shape, dtype=torch.float64).mul(4).to(dtype)
    for number in range(3):
        base, view = _base_of(value, number)
        assert torch.equal(view(base), value) and view(base)._is_view() and base.is_contiguous()


def test_changed_calls_are_in_two_dtypes_where_they_are_mixed_and_now_and_then_in_others() -> None:
    def dtypes(dtype: str, part: int) -> list[torch.dtype]:
        torch.manual_seed(0)
        fn, tensors = operator_program(OperatorProgram("neg", dtype, Setting.CHANGED, part))()
        return [out.dtype for out in fn(*tensors)]

    mixed, plain = ([d for part in range(4) for d in dtypes(dtype, part)] for dtype in ("mixed", "float32"))
    assert all(mixed.count(dtype) >= len(mixed) // 4 for dtype in (torch.float32, torch.int64))
    assert plain.count(torch.float32) >= len(plain) // 2
    for given in (mixed, plain):
        assert set(given) - {torch.float32, torch.int64}


def _spelled_calls(name: str, part: int) -> list[str]:
    program = OperatorProgram(name, "mixed", Setting.CHANGED, part)
    return [f"{called} {described(sample.call)}" for called, sample in _calls(program, _test(name))]


@pytest.mark.parametrize("name", ["addmm", "nn.functional.avg_pool2d", "var"])
def test_changed_calls_of_all_parts_are_different_ones(name: str) -> None:
    parts = [_spelled_calls(name, part) for part in range(3)]
    made = [call for part in parts for call in part]
    assert len(set(map(len, parts))) == 1 and len(made) == len(set(made))
    assert made == [call for part in range(3) for call in _spelled_calls(name, part)]


def test_first_come_the_most_unlike_changed_calls() -> None:
    """Flags and numbers with a default are given and left out, together and apart."""
    program = OperatorProgram("nn.functional.avg_pool2d", "mixed", Setting.CHANGED, 0)
    given = [set(sample.call[2]) for _, sample in _calls(program, _test(program.operator))]
    for name in ("stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"):
        assert 2 <= sum(name in one for one in given) <= len(given) - 2, name


def test_of_operators_with_more_arguments_more_changed_calls_are_one_program() -> None:
    of_one, of_three, of_seven = (len(_spelled_calls(n, 0)) for n in ("neg", "add", "nn.functional.avg_pool2d"))
    assert FEWEST == of_one < of_three < of_seven == MOST


def test_what_a_kernel_reads_without_a_look_is_not_called() -> None:
    """Means that are not there are read where they are not computed."""
    call = (torch.ones(1, 2, 3), [None, None, None, None, True, 0.1, 1e-5], {})
    accepted = _accepted(torch.ops.aten.native_batch_norm.default, _Sample(call), Setting.ALONE)
    assert accepted is not None
    for number in range(3):  # one of them would have them read
        twin = _twin(accepted, number)
        assert twin is None or twin.call[1][4] is True
