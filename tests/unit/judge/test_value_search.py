"""Values of plan ``normal`` that are searched by gradients where no fixed step keeps a program in range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from fxmorph.core.seeds import find_seeds
from fxmorph.judge import value_search as searching
from fxmorph.judge.case import plan_inputs
from fxmorph.judge.journal import noting
from fxmorph.judge.steps import Steps
from fxmorph.judge.trial import SeedSubject
from fxmorph.judge.value_search import RangeWatch
from fxmorph.model import ValuePlan
from fxmorph.programs.inputs import InputSet, NotApplicable
from fxmorph.programs.load import Invocation, load_seed
from fxmorph.programs.observe import observe
from fxmorph.programs.values import Found, Step, apply_plan

pytestmark = pytest.mark.usefixtures("torch_quiet")


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def maker(fn: Callable[..., Any], values: Sequence[Any]) -> Callable[[Step], Invocation]:
    frozen = InputSet.snapshot(values)

    def make(step: Step) -> Invocation:
        args = frozen.rebuild()
        apply_plan(ValuePlan.NORMAL, args, 0, step)
        return Invocation(fn, args, lambda g: g(*args))

    return make


def found(fn: Callable[..., Any], *values: Any, no_grad: bool = True) -> list[Any]:
    """The arguments with the values that were searched; nothing leaves the range on them."""
    make = maker(fn, values)
    step = Steps().of(ValuePlan.NORMAL, make, no_grad)
    assert isinstance(step, Found)
    watch = RangeWatch()
    assert not observe(make(step), lambda f: f, no_grad=no_grad, mode=watch).raised and not watch.left
    return make(step).args


def pole_in_place(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2).sub_(5)
    return x.view(-1).log_() + x


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: torch.log(x - y) + torch.sqrt(y - 3),
        lambda x, y: torch.acosh(x) + torch.log(5 - y),
        lambda x, y: torch.log(torch.log(x)) + y,
        lambda x, y: torch.asin(x.exp() - 5) + y,
        lambda x, y: torch.log(x - 7) + torch.log(8 - x) + y,
        lambda x, y: torch.log(x - 1) + torch.log(1.1 - x) + y,  # less than two margins wide
        lambda x, y: torch.log(x.reshape(5, 10) @ y.reshape(10, 5) - 20),
        lambda x, y: torch.log(x.softmax(0)[:5] - 0.1) + y.sum(),
        lambda x, y: (x - 3) ** 0.5 + torch.special.xlogy(y, x - 2),
        lambda x, y: torch.ops.aten.log.default(x - 3) + y,
        lambda x, y: torch.sqrt(torch.relu(x - 3) - 1) + y,  # no gradient where relu is level
        lambda x, y: torch.sqrt(torch.floor(x) - 2) + y,
        lambda x, y: torch.log(x - 20) + torch.exp(y * 30 + x * 4),
        lambda x, y: pole_in_place(x) + y,
    ],
)
def test_values_are_found_where_no_step_keeps_the_range(fn: Callable[..., Any]) -> None:
    found(fn, drawn(50), drawn(50, seed=1))


@pytest.mark.parametrize("n", [8, 9])
def test_divisors_that_are_zero_together_are_moved_apart(n: int) -> None:
    found(lambda x: 1 / (x - x.mean()), torch.ones(n))


def test_gradients_are_brought_into_range_too() -> None:
    x = drawn(20).requires_grad_()
    (x,) = found(lambda x: torch.sqrt((x - 3).clamp(min=0)), x, no_grad=False)  # 0 is in the domain, its gradient Inf
    assert float(x.detach().min()) > 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_values_are_found_in_the_programs_own_precision(dtype: torch.dtype) -> None:
    (x,) = found(lambda x: torch.log(x - 3) + torch.exp(x * 2), (drawn(50) * 4).to(dtype))
    assert x.dtype == dtype and bool((x > 3).all())


def test_overflow_is_that_of_the_dtype() -> None:
    (x,) = found(lambda x: torch.log(x - 3) + (x * x * x * x) * 16, drawn(50).mul(9).half())
    assert float(x.min()) > 3 and float(x.max()) < 8  # 16 · 8⁴ is 65536


def test_what_masks_hold_stays_as_it_is() -> None:
    bias = torch.tensor([0.0, -torch.inf, 1.0, torch.finfo(torch.float32).min])
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    index = torch.tensor([3, 1, 2, 0])
    x, new_bias, new_mask, new_index = found(
        lambda x, b, m, i: ((x[i] - 3).sqrt() * m + (b + 0 * x)).softmax(0), drawn(4), bias, mask, index
    )
    assert bool((x > 3).all())
    assert new_bias.tolist()[1::2] == bias.tolist()[1::2]
    assert torch.equal(new_mask, mask) and torch.equal(new_index, index)


def test_memory_that_inputs_share_stays_shared() -> None:
    base = drawn(12)
    a, b, wide = found(
        lambda a, b, wide: (a - 3).sqrt().sum() + (b - 4).sqrt().sum() + wide.log(),
        base[:8],
        base[4:],
        base[:1].expand(6),
    )
    assert torch.equal(a[4:], b[:4]) and wide.stride() == (0,) and wide[0] == a[0]


def test_values_are_the_same_each_time() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.log(x - y) + torch.sqrt(y - 3 - torch.rand(30))

    values = drawn(30), drawn(30, seed=1)
    first = found(fn, *values)
    torch.manual_seed(99)
    assert all(torch.equal(a, b) for a, b in zip(first, found(fn, *values), strict=True))


def count_of_runs(fn: Callable[..., Any], *values: Any) -> int:
    runs = 0

    def counted(*args: Any) -> Any:
        nonlocal runs
        runs += 1
        return fn(*args)

    with pytest.raises(NotApplicable):
        Steps().of(ValuePlan.NORMAL, maker(counted, values), True)
    return runs


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.log(-x.abs() - 1),
        lambda x: torch.log(x.detach() - 50),  # no gradient
        lambda x: torch.log(x.sign() - 2),
    ],
)
def test_a_program_that_no_values_keep_in_range_is_given_up(fn: Callable[..., Any]) -> None:
    assert 5 < count_of_runs(fn, drawn(20)) <= 5 + len(searching.ATTEMPTS) * searching.RUNS


def test_large_inputs_are_not_searched() -> None:
    assert count_of_runs(lambda x: torch.log(x - 20), drawn(searching.MOST_ELEMENTS + 1)) == 5


def test_costly_programs_are_run_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_WORK", 3 * 2 * searching.CALL)  # the calls that finish, of three runs
    assert count_of_runs(lambda x: torch.log(-(x.abs() + 1)), drawn(20)) < 5 + len(searching.ATTEMPTS) * 6


def test_a_program_that_reads_its_own_gradients_is_given_up() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        loss = (x * x).sum()
        loss.backward()
        return torch.log(x - 4) + x.grad

    x = drawn(5).requires_grad_()
    with pytest.raises(NotApplicable):  # the gradient is not that of the input
        Steps().of(ValuePlan.NORMAL, maker(fn, [x]), False)


def test_the_journal_says_what_left() -> None:
    lines: list[str] = []
    with noting(lines):
        found(lambda x: torch.log(torch.log(x)) + torch.log(5 - x), drawn(20))
    assert lines[-1].startswith("values: searched by gradients in ") and lines[-1].endswith(
        "steps: log left its domain"
    )


SEED = """
import torch

def make_inputs():
    return [torch.randn(4, 3)]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count += self.weight
        return (x.abs() + self.weight - 5).log() - self.count

def make_fn():
    return Model()
"""


def test_parameters_are_searched_and_runs_begin_anew(tmp_path: Any) -> None:
    file = tmp_path / "model.py"
    file.write_text(SEED)
    subject = SeedSubject(load_seed(find_seeds([str(file)])[0][0]))
    a, b = subject.fresh(ValuePlan.NORMAL, 0), subject.fresh(ValuePlan.NORMAL, 0)
    for made in (a, b):
        out = made.drive(made.fn)
        assert bool(torch.isfinite(out).all())
    assert torch.equal(a.state["weight"], b.state["weight"]) and torch.equal(a.args[0], b.args[0])


def test_graphs_get_what_was_found_as_inputs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.log(x - 20)

    base = InputSet.snapshot([drawn(6)])
    sets = [plan_inputs([ValuePlan.SEED, ValuePlan.NORMAL], base, 0, fn, True) for _ in range(2)]
    (a,), (b,) = (s[ValuePlan.NORMAL].rebuild() for s in sets)
    assert bool(torch.isfinite(fn(a)).all()) and torch.equal(a, b)
