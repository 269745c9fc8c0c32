"""Refutation in eager: each kind of promise, the level that no value contradicted, the values that are tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.prove.falsify import contradiction, falsify, kinds
from fxmorph.rewriting.instances import Instance
from fxmorph.rewriting.sides import AfterRaises, BeforeRaises
from fxmorph.rules import Rule

pytestmark = pytest.mark.usefixtures("torch_quiet")
Program = Callable[..., torch.Tensor]
REAL, BITS, MODULO = Level.EXACT_REAL, Level.BIT_EXACT, Level.BIT_EXACT_MOD_ZERO_SIGN
EVERY = ("float64", "float32", "int32", "int64", "int8", "bool")


def instance(before: Program, after: Program, *tensors: torch.Tensor, claim: Level = REAL, **said: Any) -> Instance:
    names = before.__code__.co_varnames[: before.__code__.co_argcount]
    said["preserves"] = frozenset(said.get("preserves", ()))
    rule = Rule("r", before, after, {n: "..." for n in names}, "r", claim=claim, dtypes=EVERY, **said)
    return Instance(rule, dict(zip(names, tensors, strict=True)), {})


def x(*shape: int) -> torch.Tensor:
    return torch.linspace(-1.9, 1.7, torch.Size(shape).numel()).reshape(shape)


def mutated(x: torch.Tensor) -> torch.Tensor:
    out = x * 2
    x.add_(1)
    return out


def raising(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no")


PROMISES: dict[str, tuple[Program, Program, str]] = {
    "dtype": (lambda x: x * 2, lambda x: (x * 2).double(), "dtype torch.float32 becomes torch.float64"),
    "stride": (lambda x: x * 2, lambda x: (x.t().contiguous() * 2).t(), "strides"),
    "alias": (lambda x: x[0:], lambda x: x.clone(), "shares memory with ('x',), then with nothing"),
    "gradient": (lambda x: x * 2, lambda x: x.detach() + x, "gradient of x differs"),
    "raises": (lambda x: x * 2, raising, "after raises ValueError"),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_promises(promise: str) -> None:
    before, after, told = PROMISES[promise]
    broken = falsify(instance(before, after, x(3, 4), preserves=(promise,))).counterexample
    assert broken is not None and told in str(broken)
    if promise == "raises":
        with pytest.raises(AfterRaises):
            falsify(instance(before, after, x(3, 4)))
    else:
        assert falsify(instance(before, after, x(3, 4))).counterexample is None
    assert falsify(instance(before, before, x(3, 4), preserves=(promise,))).counterexample is None


def test_mutation_is_a_value() -> None:
    found = falsify(instance(mutated, lambda x: x * 2, x(3), claim=BITS))
    assert found.counterexample is not None and "in what x holds afterwards" in str(found.counterexample)
    found = falsify(instance(mutated, lambda x: x * 2, x(3), claim=REAL))
    assert found.best is REAL


def test_shape_is_always_kept() -> None:
    found = falsify(instance(lambda x: x, lambda x: x[None], x(3)))
    assert found.counterexample is not None and "shape (3,) becomes (1, 3)" in str(found.counterexample)


def test_only_one_side_has_a_gradient() -> None:
    found = falsify(instance(lambda x: x * 2, lambda x: x.detach() * 2, x(3), preserves=("gradient",)))
    assert str(found.counterexample) == "only before has a gradient"


BEST: dict[str, tuple[Program, Program, Level, tuple[str, ...]]] = {
    "bits": (lambda x: x * 2, lambda x: x + x, BITS, ()),
    "sign of zero": (lambda x: x + 0.0, lambda x: x.clone(), MODULO, ()),
    "no NaN": (
        lambda x: torch.where(x <= 1, x, 5.0), lambda x: torch.where(x > 1, 5.0, x),
        Level.UNDER_PRECONDITION, ("no_nan",),
    ),
    "finite": (
        lambda x: x * 0.0, lambda x: torch.zeros_like(x), Level.UNDER_PRECONDITION, ("finite", "mod_zero_sign"),
    ),
    "reals": (lambda x: x * 0.3 * 0.7, lambda x: x * (0.3 * 0.7), REAL, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", BEST)
def test_best_level(name: str) -> None:
    before, after, level, assumptions = BEST[name]
    found = falsify(instance(before, after, x(40)))
    assert (found.best, found.assumptions, found.counterexample) == (level, assumptions, None)
    exact = falsify(instance(before, after, x(40), claim=BITS)).counterexample
    assert (exact is None) == (level is BITS)


WRONG: dict[str, tuple[Program, Program, torch.Tensor]] = {
    "real": (lambda x: x.square(), lambda x: x * x.abs(), x(3)),
    "only for negative": (lambda x: x.abs(), lambda x: x, x(3)),
    "integers": (lambda x: x // 2, lambda x: torch.div(x, 2, rounding_mode="trunc"), torch.tensor([4, 6])),
    "wide integers": (lambda x: x, lambda x: x.float().to(x.dtype), torch.tensor([4, 6])),
    "ties": (lambda x: (x > 1).float(), lambda x: (x >= 1).float(), x(3)),
    "rounding": (lambda x: x.round(), lambda x: (x + 0.5).floor(), x(40)),
    "truth": (lambda x, y: x & y, lambda x, y: x | y, torch.tensor([True, False])),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_found(name: str) -> None:
    before, after, t = WRONG[name]
    given = [t.clone() for _ in range(before.__code__.co_argcount)]
    found = falsify(instance(before, after, *given, claim=BITS if name == "wide integers" else REAL)).counterexample
    assert found is not None and found.before and found.before != found.after


def test_values_keep_to_what_the_rule_assumes() -> None:
    for word, kept in {
        "finite": lambda t: t.isfinite().all(),
        "no_nan": lambda t: ~t.isnan().any(),
        "nonneg": lambda t: (~(t < 0)).all(),
        "nonzero": lambda t: (t != 0).all(),
    }.items():
        given = instance(lambda x: x, lambda x: x, x(64).abs() + 1, assumes=(word,))
        assert all(bool(kept(values["x"])) for _, values in kinds(given)), word
        free = instance(lambda x: x, lambda x: x, x(64).abs() + 1)
        assert not all(bool(kept(values["x"])) for _, values in kinds(free)), word


def test_values_keep_strides_and_indices() -> None:
    given = instance(
        lambda x, i: x[i], lambda x, i: x[i], x(4, 1).expand(4, 3), torch.tensor([0, 1]), mixed=True
    )  # fmt: skip
    seen = set()
    for kind, values in kinds(given):
        seen.add(kind)
        assert values["x"].stride() == (1, 0) and values["i"].tolist() == [0, 1]
        assert torch.equal(values["x"][:, 0].nan_to_num(), values["x"][:, 2].nan_to_num())
    assert {"own", "zeros", "nan", "infinite", "extreme"} <= seen
    assert len(list(kinds(given, quick=True))) < len(seen)


def test_values_are_the_same_every_time() -> None:
    given = instance(lambda x: x, lambda x: x, x(7))
    first, second = ([v["x"].nan_to_num().tolist() for _, v in kinds(given)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_no_value_ends_the_process(dtype: torch.dtype) -> None:
    """The least integer divided by -1 ends the process; a division by zero raises."""
    given = instance(
        lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        torch.ones(64, dtype=dtype), torch.ones(64, dtype=dtype), claim=BITS,
    )  # fmt: skip
    assert falsify(given).counterexample is None
    for _, values in kinds(given):
        least = torch.iinfo(dtype).min
        assert not ((values["x"] == least).any() and (values["y"] == -1).any())


def test_what_does_not_run() -> None:
    with pytest.raises(BeforeRaises):
        falsify(instance(raising, lambda x: x, x(3)))


def test_values_that_are_given() -> None:
    given = instance(lambda x: x, lambda x: torch.where(x == 1234.5, 0.0, x), x(3), claim=BITS)
    assert falsify(given).counterexample is None
    assert contradiction(given, {"x": torch.tensor([1.0, 1234.5, 2.0])}) is not None
    assert contradiction(given, {"x": torch.tensor([1.0, 1234.0, 2.0])}) is None
