"""Names of elements: what they tell apart, what they do not, and the scalar claims that they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from obligations import obligations

from fxmorph.model import Level
from fxmorph.prove.prover import in_terms
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.eager_scalars import evaluate
from fxmorph.prove.smt.scalars import Op, walk
from fxmorph.rewriting.instances import Instance
from fxmorph.rules import Rule

pytestmark = pytest.mark.usefixtures("torch_quiet")
Program = Callable[..., torch.Tensor]
F = torch.nn.functional
F32, F64, I32 = torch.float32, torch.float64, torch.int32


def instance(before: Program, after: Program, *tensors: torch.Tensor, mixed: bool = False) -> Instance:
    names = before.__code__.co_varnames[: before.__code__.co_argcount]
    made = Rule("r", before, after, {n: "..." for n in names}, "r", claim=Level.EXACT_REAL, mixed=mixed)
    return Instance(made, dict(zip(names, tensors, strict=True)), {})


def run(before: Program, after: Program, *tensors: torch.Tensor, mixed: bool = False, layouts: bool = True) -> Any:
    return in_terms(instance(before, after, *tensors, mixed=mixed), layouts)


def x(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)


def written(t: torch.Tensor, change: Callable[[torch.Tensor], object]) -> torch.Tensor:
    t = t.clone()
    change(t)
    return t


PLACES = torch.tensor([2, 0, 1])
MOVES: dict[str, tuple[Program, Program]] = {
    "views": (lambda x: x.t().reshape(-1)[1:], lambda x: torch.cat([x[1:, 0], x[:, 1], x[:, 2]])),
    "in place": (lambda x: written(x, lambda y: y[0].copy_(y[2])), lambda x: torch.cat([x[2:], x[1:]])),
    "stride 0": (lambda x: x[:1].expand(3, 3).clone(), lambda x: torch.stack([x[0], x[0], x[0]])),
    "padding": (lambda x: F.pad(x, (1, 0)), lambda x: torch.cat([torch.zeros(3, 1), x], 1)),
    "gather": (lambda x: x.gather(0, PLACES[None]), lambda x: torch.stack([x[2, 0], x[0, 1], x[1, 2]])[None]),
    "index": (lambda x: x[PLACES], lambda x: x.index_select(0, PLACES)),
    "scatter": (
        lambda x: x.new_zeros(1, 3).scatter(1, PLACES[None], x[:1]),
        lambda x: torch.stack([x[0, 1], x[0, 2], x[0, 0]])[None],
    ),
    "known mask": (lambda x: x[PLACES > 0], lambda x: x[0::2]),
    "fill": (lambda x: written(x, lambda y: y[1].fill_(2)), lambda x: torch.stack([x[0], torch.full((3,), 2.0), x[2]])),
    "reflect": (lambda x: F.pad(x, (1, 0), mode="reflect"), lambda x: torch.cat([x[:, 1:2], x], 1)),
    "folded": (lambda x: torch.cat([x, torch.ones(1, 3) * 2 + 1]), lambda x: torch.cat([x, torch.full((1, 3), 3.0)])),
    "cast of a constant": (
        lambda x: torch.cat([x, torch.ones(1, 3)]), lambda x: torch.cat([x, torch.ones(1, 3).int().float()]),
    ),
    "bits there and back": (lambda x: x.view(I32).t().contiguous().view(F32), lambda x: x.t().contiguous()),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_data_is_labels(name: str) -> None:
    made = run(*MOVES[name], x(3, 3))
    assert made.equal and made.moved_only


@pytest.mark.parametrize("name", MOVES)
def test_labels_tell_what_is_moved_elsewhere(name: str) -> None:
    before, after = MOVES[name]
    assert not run(before, lambda x: after(x.flip(0)), x(3, 3)).equal


SAME: dict[str, tuple[Program, Program]] = {
    "commutes": (lambda x, y: x + y, lambda x, y: y + x),
    "in place": (lambda x, y: x * y, lambda x, y: written(x, lambda z: z.mul_(y))),
    "foreach": (lambda x, y: (x + y) * 2, lambda x, y: torch._foreach_mul(torch._foreach_add([x], [y]), 2)[0]),
    "moved operands": (lambda x, y: (x - y).t(), lambda x, y: x.t() - y.t()),
    "alias": (lambda x, y: x + 1, lambda x, y: written(x, lambda z: z.view(-1).add_(1))),
    "out": (lambda x, y: x * y, lambda x, y: torch.mul(x, y, out=torch.empty(3, 3))),
    "sum": (lambda x, y: x.sum(1), lambda x, y: x.sum(-1, keepdim=True)[:, 0]),
    "any of all": (lambda x, y: (x > y).any(1), lambda x, y: (x > y).flip(1).any(1)),
    "product": (lambda x, y: x @ y, lambda x, y: torch.mm(x, y)),
    "opaque": (lambda x, y: x.cumsum(0), lambda x, y: torch.cumsum(x, 0)),
    "a quotient of no rounding": (lambda x, y: torch.div(x, y, rounding_mode=None), lambda x, y: x / y),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_terms(name: str) -> None:
    made = run(*SAME[name], x(3, 3), x(3, 3) + 2)
    assert made.equal and not made.moved_only


APART: dict[str, tuple[Program, Program]] = {
    "order": (lambda x, y: x - y, lambda x, y: y - x),
    "maximum": (lambda x, y: torch.maximum(x, y), lambda x, y: torch.maximum(y, x)),
    "alpha": (lambda x, y: torch.add(x, y, alpha=2), lambda x, y: x + y),
    "alpha exchanged": (lambda x, y: torch.add(x, y, alpha=2), lambda x, y: torch.add(y, x, alpha=2)),
    "rounding": (
        lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    ),
    "sign of a constant zero": (lambda x, y: x + 0.0, lambda x, y: x + (-0.0)),
    "cast": (lambda x, y: x, lambda x, y: x.half().float()),
    "argument of the opaque": (lambda x, y: x.cumsum(0), lambda x, y: x.cumsum(1)),
    "correction": (lambda x, y: x.var(0), lambda x, y: x.var(0, correction=0)),
    "sum of another layout": (lambda x, y: x.sum(1), lambda x, y: x.t().contiguous().t().sum(1)),
    "order of a maximum": (lambda x, y: x.amax(1), lambda x, y: x.flip(1).amax(1)),
    "accumulates": (
        lambda x, y: x.index_put((PLACES * 0,), y, accumulate=True), lambda x, y: x.index_put((PLACES * 0,), y),
    ),
    "approximation": (lambda x, y: F.gelu(x, approximate="tanh"), lambda x, y: F.gelu(x)),
    "mutation": (lambda x, y: x + y, lambda x, y: x + y.add_(1) - 1),
    "uninitialised": (lambda x, y: torch.empty(3, 3), lambda x, y: torch.empty(3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_different_terms(name: str) -> None:
    assert not run(*APART[name], x(3, 3), x(3, 3) + 2).equal


def test_without_layouts_equal_sums_are_equal() -> None:
    before, after = APART["sum of another layout"]
    assert run(before, after, x(3, 3), x(3, 3), layouts=False).equal
    before, after = APART["order of a maximum"]
    assert run(before, after, x(3, 3), x(3, 3), layouts=False).equal


def test_gaps_of_an_argument_are_its_memory() -> None:
    gapped = x(3, 6)[:, ::2]
    assert run(lambda x: x * 2, lambda x: x * 2, gapped).equal

    def beyond(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,), 0).clone()

    made = run(beyond, beyond, gapped)
    assert made.equal and made.moved_only
    assert len(set(made.pairs[0][0].tolist())) == 2


def test_promotion_is_a_cast() -> None:
    made = run(lambda x, y: x + y, lambda x, y: x.double() + y, x(3), x(3, dtype=F64))
    assert made.equal


def test_zero_dim_operands_do_not_widen() -> None:
    """Two 0-dim float64 operands and a float32 one make float32."""

    def wide(s: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(s.double(), t.double(), x)

    def wider(s: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(s.double(), t.double(), x.double()).float()

    assert not run(wide, wider, torch.tensor(0.1), torch.tensor(0.3), torch.rand(5)).equal


@pytest.mark.parametrize("function", [torch.atan2, torch.copysign, torch.div], ids=lambda f: f.__name__)
def test_integers_become_floats_before(function: Program) -> None:
    """What gives floats of integers is not computed in integers."""
    (claim,) = obligations(lambda x, y: function(x, y), lambda x, y: x.float(), I32, I32)
    assert [n.dtype for n in walk(claim.left) if isinstance(n, Op) and n.name != "cast"] == [F32]


def test_obligations_cover_all_elements_that_differ() -> None:
    """Equal and unequal leaves are two claims; elements of one pattern are one."""

    def before(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + torch.stack([x[0], y[1], y[2], y[3]])

    claims = obligations(before, lambda x, y: x * 2, F32, F32, shape=(4,))
    assert sorted(len(c.variables) for c in claims) == [1, 2]
    one = next(c for c in claims if len(c.variables) == 1)
    value = [torch.tensor([3.5])]
    assert torch.equal(evaluate(one.left, value), evaluate(one.right, value))


def test_operands_stay_what_they_were() -> None:
    """A later write to an argument changes no expression that was made of it."""

    def before(x: torch.Tensor) -> torch.Tensor:
        out = torch.where(x == 1234.5, 7.0, 1.0)
        x.zero_()
        return out

    (claim,) = obligations(before, lambda x: torch.ones_like(x), F32)
    assert len(claim.variables) == 1
    assert evaluate(claim.left, [torch.tensor([1234.5])]).item() == 7


def test_leaves_of_opaque_operators_are_cut() -> None:
    (claim,) = obligations(lambda x: x.cumsum(0) + 0.0, lambda x: x.cumsum(0), F32)
    assert claim.inputs == (False,)


NOT_MODELLED: dict[str, Program] = {
    "item": lambda x: x * x[0].item(),
    "branch": lambda x: x if x.sum() > 0 else -x,
    "equal": lambda x: x if torch.equal(x, x * 2) else -x,
    "tolist": lambda x: x * 2 if 7.0 in x.tolist() else x,
    "numpy": lambda x: x * float(x.numpy()[0]),
    "nonzero": lambda x: x * x.nonzero().shape[0],
    "mask": lambda x: x[x > 1],
    "masked select": lambda x: x.masked_select(x > 1),
    "unique": lambda x: x.unique(),
    "repeats": lambda x: x.repeat_interleave(x.long()),
    "random": lambda x: x + torch.rand_like(x),
    "sizes of elements": lambda x: x.view(torch.uint8),
    "resize": lambda x: x.clone().resize_(2),
    "sparse": lambda x: x.to_sparse().to_dense(),
    "complex": lambda x: torch.complex(x, x).conj() * x,
    "written twice": lambda x: written(x, lambda y: y.as_strided((2, 2), (1, 1)).add_(1)),
    "statistics": lambda x: F.batch_norm(x[:, None], torch.zeros(1), torch.ones(1), training=True),
    "error": lambda x: x + torch.ones(5),
}


@pytest.mark.parametrize("name", NOT_MODELLED)
def test_not_modelled(name: str) -> None:
    side = NOT_MODELLED[name]
    with pytest.raises(NotModelled):
        run(side, side, x(3))


def test_mask_that_is_overwritten() -> None:
    def side(x: torch.Tensor) -> torch.Tensor:
        mask = torch.tensor([True, False])
        return mask.masked_fill_(mask, x[0] > 0)

    with pytest.raises(NotModelled):
        run(side, side, x(2))


def test_index_arguments_enter_by_value() -> None:
    def before(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i]

    def after(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[1], x[0]])

    assert run(before, after, x(2), torch.tensor([1, 0]), mixed=True).moved_only
    assert not run(before, after, x(2), torch.tensor([1, 1]), mixed=True).equal


def test_an_element_is_one_of_the_argument_that_has_any() -> None:
    """An empty argument has no names, and the next one begins where it does."""
    made = run(lambda x, y: y.clone(), lambda x, y: y.clone(), torch.empty(0, 2), x(2, 2))
    ((left, _, _),) = made.pairs[:1]
    assert [made.terms.origin(int(name)) for name in left.flatten()] == [("y", 0), ("y", 1), ("y", 2), ("y", 3)]
