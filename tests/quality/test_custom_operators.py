"""A wrong value in or around a custom operator is a finding; its own roundings and decisions are none.

Where an operator does not run in fp64, it is compared with itself on values that rounding may have moved.  The
compiler is damaged in its table of decompositions, so that nothing needs a C++ compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from decompositions_exchanged import judge
from torch._inductor import decomposition

from fxmorph.model import Kind, Status, ValuePlan
from fxmorph.testing import check_pass, reference
from fxmorph.torchapi.operator_checks import broken_promise, foreign_calls

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]


@torch.library.custom_op("fxmorph_tests::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@torch.library.custom_op("fxmorph_tests::norm_of_floats", mutates_args=())
def norm_of_floats(x: torch.Tensor, eps: float) -> torch.Tensor:
    assert x.dtype == torch.float32
    a = x.detach().numpy()
    return torch.from_numpy(a / np.sqrt((a * a).mean(-1, keepdims=True) + np.float32(eps)))


@torch.library.custom_op("fxmorph_tests::norm_into", mutates_args=("out",))
def norm_into(out: torch.Tensor, x: torch.Tensor, eps: float) -> None:
    assert x.dtype == torch.float32
    out.copy_(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@torch.library.custom_op("fxmorph_tests::quantised", mutates_args=())
def quantised(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.from_numpy(np.rint(x.detach().numpy().astype(np.float32) / np.float32(scale)).astype(np.int8))


@torch.library.custom_op("fxmorph_tests::add", mutates_args=())
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of one name with an operator of PyTorch's, and something else."""
    return x * 1.1 + y.sin()


@torch.library.custom_op("fxmorph_tests::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x + 0.1 * x


for op in (rms_norm, norm_of_floats):
    op.register_fake(lambda x, eps: torch.empty_like(x))
quantised.register_fake(lambda x, scale: torch.empty_like(x, dtype=torch.int8))
add.register_fake(lambda x, y: torch.empty_like(x))
square.register_fake(lambda x: torch.empty_like(x))
square.register_autograd(
    lambda ctx, grad: grad * (2 * ctx.saved_tensors[0] + 0.1),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)
OURS = torch.ops.fxmorph_tests


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def into(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    norm_into(out, x * 1.5, 1e-6)
    return out.sin()


def damaged_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1.0).sqrt()


def damaged_square(x: torch.Tensor) -> torch.Tensor:
    return x * x * 1.01 + 0.1 * x


@contextmanager
def instead(key: Any, function: Program) -> Iterator[None]:
    with patch.dict(decomposition.decompositions, {key: function}):
        decomposition.fast_random_decomps.cache_clear()
        yield
    decomposition.fast_random_decomps.cache_clear()


PLANS = (ValuePlan.SEED, ValuePlan.EXACT)
X = draw(4, 16)
PROGRAMS: dict[str, tuple[Program, list[Any]]] = {
    "an epsilon": (lambda x: rms_norm(x * 1.5, 1e-6).sin(), [X]),
    "an operator of floats alone": (lambda x: norm_of_floats(x * 1.5, 1e-6).cos(), [X]),
    "an operator that writes": (into, [X]),
    "a quantiser": (lambda x: quantised(x * 1.3, 0.05), [X]),
    "a name that PyTorch has too": (lambda x, y: add(x * 3, y) * 0.1, [X, X.flip(0)]),
    "a gradient of its own": (lambda x: square(x.sin()) * 3, [draw(4, 16).requires_grad_()]),
}
DAMAGE: dict[str, tuple[Any, Program]] = {
    "an epsilon": (OURS.rms_norm.default, damaged_norm),
    "an operator of floats alone": (OURS.norm_of_floats.default, damaged_norm),
    "an operator that writes": (torch.ops.aten.sin.default, lambda x: x.cos()),
    "a quantiser": (OURS.quantised.default, lambda x, scale: (x / 0.06).round().to(torch.int8)),
    "a name that PyTorch has too": (OURS.add.default, lambda x, y: x * 1.1 + y.cos()),
    "a gradient of its own": (torch.ops.aten.sin.default, lambda x: x.cos()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_value_with_a_custom_operator_is_found(name: str) -> None:
    got = judge(*PROGRAMS[name], instead(*DAMAGE[name]), plans=PLANS)
    assert got.status is Status.FINDING and Kind.VALUE in got.kinds, got.reason


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_custom_operator_that_is_compiled_rightly_is_clean(name: str) -> None:
    got = judge(*PROGRAMS[name], nullcontext(), plans=PLANS)
    assert got.status is Status.CLEAN, got.reason


def test_what_rounding_decides_inside_is_a_tie() -> None:
    """Halves between two steps of a quantiser, after a sum that is computed otherwise."""
    x = (torch.arange(64.0) + 0.5).reshape(4, 16) * 0.05 / 1.3
    rounded_otherwise = instead(torch.ops.aten.mul.Tensor, lambda a, b: a / (1 / b))
    got = judge(lambda x: quantised(x * torch.full_like(x, 1.3), 0.05), [x], rounded_otherwise, plans=PLANS)
    assert got.status in (Status.CLEAN, Status.TIE), got.reason


def test_an_operator_that_the_compiler_is_told_nothing_of_is_unsupported() -> None:
    @torch.library.custom_op("fxmorph_tests::untold", mutates_args=())
    def untold(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    assert judge(lambda x: untold(x), [X], nullcontext(), plans=PLANS).status is Status.UNSUPPORTED


@torch.library.custom_op("fxmorph_tests::sum_of_halves", mutates_args=())
def sum_of_halves(x: torch.Tensor) -> torch.Tensor:
    """In float32 alone, and off by a part in a hundred of what its author says that it gives."""
    assert x.dtype == torch.float32
    return torch.from_numpy(x.detach().numpy().sum(-1, dtype=np.float32)) / 2


sum_of_halves.register_fake(lambda x: x.new_empty(x.shape[:-1]))


def test_the_reference_of_an_author_is_what_an_operator_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxmorph.judge.reference.authored._AUTHORED", {})
    seen = []

    @reference("fxmorph_tests::sum_of_halves")
    def right(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.dtype)
        return x.sum(-1) / 2

    program: Program = lambda x: sum_of_halves(x * 1.5).sin()  # noqa: E731
    assert judge(program, [X], nullcontext(), plans=PLANS).status is Status.CLEAN
    assert set(seen) == {torch.float64}
    wrong = instead(OURS.sum_of_halves.default, lambda x: x.sum(-1) / 2.001)
    assert judge(program, [X], wrong, plans=PLANS).status is Status.FINDING


def test_eager_that_is_not_what_its_author_says_is_never_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxmorph.judge.reference.authored._AUTHORED", {})
    reference("fxmorph_tests::sum_of_halves")(lambda x: x.sum(-1) / 2.1)
    rounded_otherwise = instead(OURS.sum_of_halves.default, lambda x: x.sum(-1) / 2 * (1 + 1e-5))
    got = judge(lambda x: sum_of_halves(x * 1.5).sin(), [X], rounded_otherwise, plans=PLANS)
    assert got.status is Status.INCONCLUSIVE, got.reason


def test_a_reference_has_the_whole_name() -> None:
    with pytest.raises(ValueError, match="want the operator's name with its namespace"):
        reference("rms_norm")


# -- promises ------------------------------------------------------------------------


def clones(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def writes(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1).clone()


def widens(x: torch.Tensor) -> torch.Tensor:
    return x.double()


def transposes(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT


@contextmanager
def operator_that(does: Program) -> Iterator[Program]:
    """An operator that says of itself that it gives a new tensor like its argument."""
    with torch.library._scoped_library("fxmorph_promises", "FRAGMENT") as library:
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", does, "CompositeExplicitAutograd")
        torch.library.register_fake("fxmorph_promises::op", torch.empty_like, lib=library)
        yield torch.ops.fxmorph_promises.op.default


def around(operator: Program) -> Program:
    def program(x: torch.Tensor) -> Any:
        doubled = x * 2
        made = operator(doubled)
        return (made * 3).sum(0), doubled.cos(), made

    return program


@pytest.mark.parametrize("does", [widens, transposes])
def test_an_operator_that_breaks_its_promise_is_its_authors(does: Program) -> None:
    with operator_that(does) as operator:
        got = judge(around(operator), [draw(4, 4)], nullcontext(), plans=PLANS, backend="inductor")
    assert got.status is Status.SKIPPED, got.reason
    assert got.reason.startswith("fxmorph_promises::op fails torch.library.opcheck (test_faketensor: ")


@pytest.mark.parametrize(("does", "says"), [(clones, ""), (writes, "test_schema"), (widens, "test_faketensor")])
def test_promises_are_those_of_opcheck(does: Program, says: str) -> None:
    with operator_that(does) as operator:
        ((called, (args, kwargs)),) = foreign_calls(lambda: around(operator)(draw(4, 4))).items()
        assert says in broken_promise(called, args, kwargs)
        assert bool(says) is bool(broken_promise(called, args, kwargs))


def test_an_operator_that_keeps_its_promise_excuses_nothing() -> None:
    wrong = instead(torch.ops.aten.cos.default, lambda x: x.sin())
    with operator_that(clones) as operator:
        got = judge(around(operator), [draw(4, 4)], wrong, plans=PLANS, backend="inductor")
    assert got.status is Status.FINDING, got.reason


def test_what_a_pass_makes_of_an_operator_that_breaks_its_promise_is_not_judged() -> None:
    def merge(graph: Any) -> None:
        for node in graph.find_nodes(op="call_function", target=operator):
            if node.args[0].target is torch.ops.aten.neg.default:
                node.replace_all_uses_with(node.args[0])

    with operator_that(widens) as operator:
        assert check_pass(merge, (), fires=False, graphs=150) >= 0
    with operator_that(clones) as operator, pytest.raises(AssertionError, match="WRONG"):
        check_pass(merge, (), graphs=150)
