"""Pairs of graphs: each kind of difference is found, and what means the same is clean."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pairgraphs import numbers, traced
from torch import fx

from fxmorph.inductor.metadata import wrong_notes
from fxmorph.inductor.pairs import judge_pair
from fxmorph.model import Kind, Level, Status, ValuePlan
from fxmorph.programs.interpreter import program

aten = torch.ops.aten
pytestmark = pytest.mark.usefixtures("torch_quiet")
X, Y = numbers(4, 5), numbers(4, 5, seed=1)


def judged(before: Callable[..., Any], after: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    options = {"aliases": True, **options}
    return judge_pair(traced(before, *inputs), traced(after, *inputs), inputs, **options)


SAME = [
    (lambda x: x * 1.0 + 1, lambda x: x + 1, Level.BIT_EXACT),
    (lambda x: (x + x) * 0.5, lambda x: x * 1, Level.UNDER_PRECONDITION),  # x + x overflows where x does not
    (lambda x: x.softmax(1), lambda x: (x - 1).exp() / (x - 1).exp().sum(1, keepdim=True), Level.EXACT_REAL),
    (lambda x: x.sum() * 2, lambda x: (2 * x).sum(), Level.BIT_EXACT),
    (
        lambda x: x.double().softmax(1),
        lambda x: (x.double() - 1).exp() / (x.double() - 1).exp().sum(1, keepdim=True),
        Level.EXACT_REAL,
    ),
    (
        lambda x: x.double().var(1),
        lambda x: (x.double() - x.double().mean(1, True)).square().sum(1) / 4,
        Level.EXACT_REAL,
    ),
]
SAME_IDS = ["times one", "halves", "softmax", "scaled sum", "double softmax", "double variance"]


@pytest.mark.parametrize("before,after,best", SAME, ids=SAME_IDS)
def test_what_means_the_same_is_no_finding(before: Any, after: Any, best: Level) -> None:
    verdict = judged(before, after, X)
    assert verdict.status is not Status.FINDING, verdict.reason
    assert verdict.best in (best, Level.EXACT_REAL)


WRONG = [
    (lambda x, y: torch.add(x, y, alpha=2), lambda x, y: x + y, Kind.VALUE),
    (lambda x, y: x.to(torch.float64) + y, lambda x, y: x + y, Kind.DTYPE),
    (lambda x, y: x[:, :2] + 0, lambda x, y: x[:, :3] + 0, Kind.SHAPE),
    (lambda x, y: (x + 1, y + 1), lambda x, y: (x + 1,), Kind.STRUCTURE),
    (lambda x, y: x.clone(), lambda x, y: x, Kind.ALIAS),
    (lambda x, y: x.clone(), lambda x, y: x.view(4, 5), Kind.ALIAS),
    (lambda x, y: x.add_(1) + y, lambda x, y: (x + 1) + y, Kind.MUTATION),
    (lambda x, y: x + 1, lambda x, y: x.add_(1).clone(), Kind.MUTATION),
    (lambda x, y: x / y.abs().clamp(min=1), lambda x, y: x / 0, Kind.NONFINITE),
    (lambda x, y: x.double() * 0.1 + y, lambda x, y: x.double() * 0.10000000149011612 + y, Kind.VALUE),
    (lambda x, y: x.double() / 3 - y, lambda x, y: x.double() * 0.3333333432674408 - y, Kind.VALUE),
    (lambda x, y: x.double().exp() * y, lambda x, y: x.exp().double() * y, Kind.VALUE),
]


@pytest.mark.parametrize("before,after,kind", WRONG)
def test_each_kind_of_difference_is_found(before: Any, after: Any, kind: Kind) -> None:
    verdict = judged(before, after, X, Y)
    assert verdict.status is Status.FINDING and kind in verdict.kinds, verdict


def test_aliases_and_strides_count_where_the_caller_says_so() -> None:
    cloned = judged(lambda x: x.clone(), lambda x: x, X, aliases=False)
    assert cloned.status is Status.CLEAN and "shares memory" in cloned.notes[0]
    turned = (lambda x: x.t().contiguous() + 1, lambda x: x.t() + 1)
    assert judged(*turned, X).status is Status.CLEAN
    assert judged(*turned, X, strides=True).kinds == (Kind.STRIDE,)


def test_differences_at_nan_and_signed_zero_are_edge_cases() -> None:
    for before, after in ((lambda x: x * 0 + 1, lambda x: x - x + 1), (lambda x: x * 0, torch.zeros_like)):
        positive = judged(before, after, X.abs(), plans=(ValuePlan.SEED,))
        assert positive.status is Status.CLEAN
    assert judged(lambda x: x * 0, torch.zeros_like, X).status is Status.EDGE_CASE
    added = judged(lambda x: x + 0.0, lambda x: x, X, aliases=False, plans=(ValuePlan.SEED, ValuePlan.SPECIAL))
    assert added.status in (Status.EDGE_CASE, Status.CLEAN) and not added.kinds


def test_masks_outside_zero_and_one_are_tried() -> None:
    """What keeps only mask == 1 agrees on the seed's own mask."""
    mask = torch.tensor([[1, 0, 1, 1, 0]] * 4)

    def before(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(m == 0, -1.0)

    def after(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return torch.where(m == 1, x, -1.0)

    verdict = judged(before, after, X, mask)
    assert verdict.status is Status.FINDING and verdict.plan is ValuePlan.MASK


def test_other_random_numbers_are_skipped_and_the_same_ones_are_not() -> None:
    verdict = judged(lambda x: torch.rand_like(x) + x, lambda x: torch.rand_like(x) * 2 + x, X)
    assert verdict.status is Status.SKIPPED and "random" in verdict.reason
    assert judged(lambda x: torch.rand_like(x) + x, lambda x: x + torch.rand_like(x), X).status is Status.CLEAN


def test_a_graph_that_raises() -> None:
    twice = traced(lambda x: x + 1, X)
    broken = traced(lambda x: x + 1, X)
    call = next(n for n in broken.graph.nodes if n.op == "call_function")
    call.args = (call.args[0], torch.ones(7))
    assert judge_pair(twice, broken, [X], aliases=True).kinds == (Kind.RAISES,)
    assert judge_pair(broken, twice, [X], aliases=True).status is Status.UNSUPPORTED


def test_constants_of_a_module_are_the_same_for_every_call() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    held = graph.get_attr("held")
    graph.output(graph.call_function(aten.add_.Tensor, (held, x)))
    root = torch.nn.Module()
    root.register_buffer("held", torch.ones(4, 5))
    run = program(fx.GraphModule(root, graph))
    assert torch.equal(run(X), run(X))


def test_notes_of_nodes_are_propagated_anew() -> None:
    gm = traced(lambda x: (x.half() * 2).float().t() + 1, X)
    assert wrong_notes(gm) == []
    half, turned = (next(n for n in gm.graph.nodes if word in str(n.target)) for word in ("_to_copy", "aten.t."))
    half.meta["val"], turned.meta["val"] = half.meta["val"].float(), turned.meta["val"].clone().contiguous()
    assert [(w.node, w.kind) for w in wrong_notes(gm)] == [(half.name, Kind.DTYPE), (turned.name, Kind.STRIDE)]
    good = traced(lambda x: (x.half() * 2).float().t() + 1, X)
    verdict = judge_pair(good, gm, [X], aliases=True)
    assert verdict.status is Status.FINDING and verdict.kinds == (Kind.DTYPE,) and len(verdict.notes) == 1
    assert judge_pair(good, gm, [X], aliases=True, notes=False).status is Status.CLEAN
    assert judge_pair(gm, gm, [X], aliases=True).status is Status.CLEAN  # it was wrong before


def test_operators_on_lists_that_write_give_what_they_wrote() -> None:
    """As reinplacing leaves them: eager returns None, Inductor's lowering the list."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    twice = graph.call_function(aten.mul.Tensor, (x, 2))
    added = graph.call_function(aten._foreach_add_.Scalar, ([twice], 1))
    graph.output(graph.call_function(operator.getitem, (added, 0)))
    after = fx.GraphModule({}, graph)
    assert judge_pair(traced(lambda x: x * 2 + 1, X), after, [X], aliases=True).status is Status.CLEAN


def test_a_list_of_results_is_as_good_as_a_tuple_and_another_number_is_not() -> None:
    before = traced(lambda x: (x + 1, x * 2), X)
    listed, single = traced(lambda x: (x + 1, x * 2), X), traced(lambda x: (x + 1, x * 2), X)
    for gm, change in ((listed, list), (single, lambda results: results[:1])):
        output = gm.graph.output_node()
        output.update_arg(0, change(output.args[0]))
        gm.recompile()
    assert judge_pair(before, listed, (X,), aliases=True).status is Status.CLEAN
    assert judge_pair(listed, before, (X,), aliases=True).status is Status.CLEAN
    wrong = judge_pair(before, single, (X,), aliases=True)
    assert wrong.status is Status.FINDING and Kind.STRUCTURE in wrong.kinds
