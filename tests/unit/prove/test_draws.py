"""Wrong rules that only some arguments show: each is refuted by arguments that the prover draws."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.prove.fuzz.mutants import Family, Mutant
from fxmorph.prove.fuzz.refutation import contradicted, refutation
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rewriting.instances import Instance
from fxmorph.rules import Rule

pytestmark = [pytest.mark.usefixtures("torch_quiet"), pytest.mark.filterwarnings("ignore:where received a uint8")]
Program = Callable[..., torch.Tensor]
F = torch.nn.functional


def rule(before: Program, after: Program, args: dict[str, str], claim: Level, **said: Any) -> Rule:
    said.setdefault("dtypes", ("float32",))
    return Rule("r", before, after, args, "r", claim=claim, **said)


class _Told(Mutant):
    """A mutant that says nothing of its text: it was made of functions of this file."""

    text = "6.0, 1.0"  # type: ignore[assignment]  # its numbers

    def __init__(self, made: Rule) -> None:
        super().__init__(made, Family.TIE, "")


def _subtracted_by_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(x.shape[0]):
        x[i] -= y[i]
    return x


def _subtracted_from_the_end(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in reversed(range(x.shape[0])):
        x[i] -= y[i]
    return x


def _swapped_and_back(x: torch.Tensor) -> torch.Tensor:
    """Right but where the last size is a bit more than twice the first."""
    half = x.shape[-1] // 2
    y = torch.cat([x[half:], x[:half]])
    return torch.cat([y[x.shape[0] - half :], y[: x.shape[0] - half]])


def _root(n: int) -> int:
    k = 0
    while (k + 1) ** 2 <= n:
        k += 1
    return k


def _every_third_for_every_second(x: torch.Tensor) -> torch.Tensor:
    """Runs for few sizes, and is wrong for one of those."""
    out = x.clone()
    kept = out[::2].clone()
    out[::2] = 0
    out[::3] = kept
    return out


def _power_of_each(x: torch.Tensor) -> torch.Tensor:
    return torch.pow(torch.stack([x, x])[0], torch.stack([x + 1, x], -1)[..., 0])


FEW = {"where": ("x.shape == y.shape", "x.ndim >= 1", "1 <= x.shape[0] <= 6"), "preserves": frozenset(("mutation",))}
GRADIENT = {"preserves": frozenset(("gradient",)), "assumes": ("finite",), "dtypes": ("float64",)}
WRONG: dict[str, Rule] = {
    "as many as the second dimension has": rule(
        lambda x: x, lambda x: x.gather(-1, torch.arange(x.shape[1]).expand(x.shape)), {"x": "..."},
        Level.INDEX_EXACT, where=("x.ndim >= 2",),
    ),
    "a dimension from the front for one from the end": rule(
        lambda x: x, lambda x: torch.diagonal_scatter(x, x.diagonal(0, -2, -1), 0, -2, 1), {"x": "..."},
        Level.INDEX_EXACT, where=("x.ndim >= 2",), dtypes=("int8",),
    ),
    "a mask of another dtype than bool": rule(
        lambda x, y, m: torch.where(m, x, y), lambda x, y, m: torch.where(~m, y, x),
        {"x": "...", "y": "...", "m": "..."}, Level.INDEX_EXACT, dtypes=("int32", "uint8", "float32"), mixed=True,
        where=("x.dtype == y.dtype",),
    ),
    "half of another size": rule(
        lambda x: x, _swapped_and_back, {"x": "..."}, Level.INDEX_EXACT, where=("x.ndim >= 2",), dtypes=("bool",),
    ),
    "broadcast": rule(
        lambda x, y: (x - y).amax(-1), lambda x, y: (x - y.expand_as(x)).amax(-1) if x.shape == y.shape else x.amax(-1),
        {"x": "...", "y": "..."}, Level.BIT_EXACT, where=("x.ndim == y.ndim", "x.ndim >= 1"), assumes=("finite",),
    ),
    "mean of a broadcast sum": rule(
        lambda x, y: (x + y).sum(0), lambda x, y: x.sum(0) + y.sum(0), {"x": "...", "y": "..."}, Level.EXACT_REAL,
        where=("x.ndim == y.ndim", "x.ndim >= 1"), assumes=("finite",),
    ),
    "overlap, forwards": rule(
        lambda x, y: x.sub_(y.clone()), _subtracted_by_rows, {"x": "...", "y": "..."}, Level.BIT_EXACT,
        dtypes=("int32",), **FEW,
    ),
    "overlap, backwards": rule(
        lambda x, y: x.sub_(y.clone()), _subtracted_from_the_end, {"x": "...", "y": "..."}, Level.BIT_EXACT,
        dtypes=("int32",), **FEW,
    ),
    "stride of a row": rule(
        lambda x: x.flatten(), lambda x: x.as_strided((x.numel(),), (x.stride(-1),), x.storage_offset()),
        {"x": "m n"}, Level.INDEX_EXACT, where=("x.contiguous", "m >= 1", "n >= 1"),
    ),
    "bits of a size": rule(
        lambda x: x * x.shape[0].bit_length(), lambda x: x * (int(math.log2(x.shape[0] - 0.5)) + 1), {"x": "n"},
        Level.BIT_EXACT, where=("n >= 3",),
    ),
    "a fraction of a size": rule(
        lambda x: x[: x.shape[0] * 29 // 100], lambda x: x[: int(x.shape[0] * 0.29)], {"x": "n"}, Level.INDEX_EXACT,
    ),
    "a size that a loop looks for": rule(
        lambda x: x[: _root(x.shape[0])], lambda x: x[: int((x.shape[0] - 0.01) ** 0.5)], {"x": "n"},
        Level.INDEX_EXACT, where=("n >= 1",),
    ),
    "a count in 8 bits": rule(
        lambda x: x.any(0), lambda x: x.sum(0, dtype=torch.uint8) != 0, {"x": "n"}, Level.BIT_EXACT, dtypes=("bool",)
    ),
    "positions in 16 bits": rule(
        lambda x: x + torch.arange(x.shape[0]), lambda x: x + torch.arange(x.shape[0]).to(torch.int16).to(torch.int64),
        {"x": "n"}, Level.BIT_EXACT, dtypes=("int64",),
    ),
    "a gradient at a computed bound": rule(
        lambda x: x.clamp(min=math.log(2)), lambda x: torch.where(x > math.log(2), x, torch.full_like(x, math.log(2))),
        {"x": "..."}, Level.BIT_EXACT, **GRADIENT,
    ),
    "a size beside the same tensor": rule(
        lambda x, y: x.sub_(y), lambda x, y: -x.copy_(x - y) if x.shape[-1] == 6 else x.copy_(x - y),
        {"x": "...", "y": "..."}, Level.BIT_EXACT, where=("x.ndim >= 1", "x.shape == y.shape"),
        dtypes=("int16",), preserves=frozenset(("mutation",)),
    ),
    "a threshold below what the dtype tells apart": rule(
        lambda x: F.softplus(F.silu(x), 1, 5), lambda x: F.softplus(F.silu(x), 1, 6), {"x": "..."}, Level.EXACT_REAL,
        dtypes=("bfloat16",), assumes=("finite",),
    ),
    "less than half of a narrow result": rule(
        lambda a, b: a @ b, lambda a, b: torch.mm(a, b) + 1 if a.shape[-1] == 5 else torch.mm(a, b),
        {"a": "m k", "b": "k n"}, Level.EXACT_REAL, dtypes=("bfloat16",),
    ),
    "a size beside the one that is indexed": rule(
        lambda x, i: x[i], lambda x, i: x[i].roll(1, -1) if x.shape[1] == 11 else x[i], {"x": "m n", "i": "k"},
        Level.INDEX_EXACT, where=("not i.floating", "i.dtype == 'int64'"), dtypes=("float64",), mixed=True,
    ),
    "an integer that a narrow float rounds": rule(
        lambda x, i: x == i, lambda x, i: x.double() == i.double(), {"x": "n", "i": "n"}, Level.BIT_EXACT,
        where=("x.dtype == 'bfloat16'", "i.dtype == 'int32'"), dtypes=("bfloat16", "int32"), mixed=True,
    ),
    "a bound of a number": rule(
        lambda x, c: F.leaky_relu(x, c), lambda x, c: torch.maximum(x, x * c) if c > 1.1 else F.leaky_relu(x, c),
        {"x": "..."}, Level.EXACT_REAL, scalars={"c": None}, where=("type(c) is float", "0.2 < c < 1.25"),
        assumes=("finite",),
    ),
    "a number held in fewer bits": rule(
        lambda x: x / 7, lambda x: x * (torch.ones(()) / 7), {"x": "n"}, Level.EXACT_REAL, dtypes=("float64",),
    ),
    "what lies between rows": rule(
        lambda x: x.mul_(2),
        lambda x: x.as_strided((x.stride(0) * len(x) - x.stride(0) + x.shape[1],), (1,)).mul_(2)
        .as_strided(x.shape, x.stride()),
        {"x": "m n"}, Level.BIT_EXACT, dtypes=("int16",),
        where=("m >= 2", "n >= 1", "x.stride[1] == 1", "x.stride[0] >= n", "x.offset == 0"),
        preserves=frozenset(("mutation",)),
    ),
    "a size of masks": rule(
        lambda x, m: x.masked_fill(m, 3), lambda x, m: x.masked_fill(m, 3).flip(0) if id(len(x)) == id(9) else
        x.masked_fill(m, 3), {"x": "n", "m": "n"}, Level.BIT_EXACT, where=("x.floating", "m.dtype == 'bool'"),
        dtypes=("float32", "bool"), mixed=True,
    ),
    "a size beside multiples": rule(
        lambda x: x.flip(0), lambda x: x.flip(0, 1) if hash(x.shape[1]) == 7 else x.flip(0), {"x": "m n"},
        Level.INDEX_EXACT, where=("m % 8 == 0", "m >= 1"),
    ),
    "the last dimension, of size 1": rule(
        lambda x, d: x.sum(d),
        lambda x, d: x.sum(d).flip(-1) if x.shape[-1] == 1 else x.sum(d),
        {"x": "..."}, Level.EXACT_REAL, where=("type(d) is int", "x.ndim >= 2", "-x.ndim <= d < x.ndim"),
        scalars={"d": None}, dtypes=("float64",),
    ),
    "the one size that fits and is wrong": rule(
        lambda x: x, _every_third_for_every_second, {"x": "n"}, Level.INDEX_EXACT, where=("n >= 1",), dtypes=("int32",),
    ),
    "nearest by whole numbers": rule(
        lambda x, y: F.interpolate(x, size=y.shape[0], mode="nearest"),
        lambda x, y: x[..., torch.arange(y.shape[0]) * x.shape[-1] // y.shape[0]], {"x": "b c n", "y": "m"},
        Level.INDEX_EXACT, where=("b >= 1", "c >= 1", "n >= 1", "m >= 1"),
    ),
    "one tensor, given twice": rule(
        lambda x, y: x - y, lambda x, y: torch.zeros_like(x) if x is y else x - y, {"x": "...", "y": "..."},
        Level.BIT_EXACT, where=("x.shape == y.shape",),
    ),
    "many that are alike, counted in 8 bits": rule(
        lambda x: (x > 0).any(-1), lambda x: (x > 0).sum(-1, dtype=torch.uint8) > 0, {"x": "n"}, Level.BIT_EXACT,
        assumes=("finite",),
    ),
    "more dimensions than four": rule(
        lambda x: x.flip(list(range(x.ndim))), lambda x: x.flip(list(range(min(x.ndim, 4)))), {"x": "..."},
        Level.INDEX_EXACT,
    ),
    "half a block more than one": rule(
        lambda x: x.sum(), lambda x: x[: x.shape[0] // 2048 * 2048].sum() + x[x.shape[0] // 2048 * 2048 :][:1024].sum(),
        {"x": "n"}, Level.BIT_EXACT, dtypes=("int64",),
    ),
    "a place computed in 8 bits": rule(
        lambda x, i: x[(i % x.shape[0]).long()], lambda x, i: x[((i % x.shape[0]) * x.shape[1]).long() // x.shape[1]],
        {"x": "m n", "i": "k"}, Level.INDEX_EXACT, mixed=True, dtypes=("float32", "int8"),
        where=("x.floating", "not i.floating", "m >= 1", "n >= 1", "m <= 120", "n <= 120"),
    ),
    "positions in half precision": rule(
        lambda x: x + torch.arange(x.shape[0]), lambda x: x + torch.arange(x.shape[0]).half(), {"x": "n"},
        Level.EXACT_REAL, assumes=("finite",),
    ),
    "a size of divisors": rule(
        lambda x, y: torch.floor_divide(x, y),
        lambda x, y: torch.floor_divide(x, y) - 1 if x.shape[-1] == 6 else torch.floor_divide(x, y),
        {"x": "... n", "y": "... n"}, Level.BIT_EXACT, dtypes=("int64",),
    ),
}  # fmt: skip
#: Rules that hold as strongly as the second level, and for numbers that most draws have more strongly.
WEAKER = {
    "a divisor that is no power of two": (
        rule(lambda x, c: x / c, lambda x, c: x * (1 / c), {"x": "..."}, Level.EXACT_REAL, where=("c != 0",),
             scalars={"c": None}, assumes=("finite",)), Level.EXACT_REAL,
    ),
    "a factor that leaves the range": (
        rule(lambda x, c: (x * c) / c, lambda x, c: x.clone(), {"x": "..."}, Level.EXACT_REAL, where=("c != 0",),
             scalars={"c": (1, -1, 4)}, assumes=("finite",), dtypes=("float16",)), Level.EXACT_REAL,
    ),
    "a filled tensor, in strides": (
        rule(lambda x, c: _power_of_each(x.fill_(c)), lambda x, c: torch.pow(x.fill_(c), x + 1), {"x": "..."},
             Level.EXACT_REAL, scalars={"c": None}, where=("c >= 1",), assumes=("finite",), dtypes=("float64",)),
        Level.EXACT_REAL,
    ),
    "rows that are summed in vectors": (
        rule(lambda x: x.sum(-1), lambda x: x.flip(-1).sum(-1), {"x": "n"}, Level.EXACT_REAL, assumes=("finite",)),
        Level.EXACT_REAL,
    ),
}  # fmt: skip


#: No difference between them is as large as eager's roundings.
UNKNOWN = ("a number held in fewer bits",)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_refuted(name: str) -> None:
    proof = prove_rule(WRONG[name], WRONG[name].dtypes[0], Prover())
    assert proof.level is (Level.UNKNOWN if name in UNKNOWN else Level.REFUTED), proof


@pytest.mark.parametrize("name", WEAKER)
def test_a_level_is_that_of_all_arguments(name: str) -> None:
    weaker, level = WEAKER[name]
    assert not prove_rule(weaker, weaker.dtypes[0], Prover()).level.stronger(level)


def test_a_division_by_a_number_may_differ_from_one_in_a_row() -> None:
    """Of 16-bit floats it is rounded more often in vector loops."""
    elements = rule(
        lambda x, y: torch.floor_divide(x, y),
        lambda x, y: torch.stack([torch.floor_divide(a, b) for a, b in zip(x.unbind(), y.unbind(), strict=True)]),
        {"x": "n", "y": "n"}, Level.BIT_EXACT, where=("1 <= n <= 9",), dtypes=("bfloat16",),
        assumes=("finite", "nonzero"),
    )  # fmt: skip
    assert prove_rule(elements, "bfloat16", Prover()).level not in (Level.BIT_EXACT, Level.INDEX_EXACT)


def test_bits_of_a_narrow_float_are_not_those_of_a_wide_one() -> None:
    """A rule for 16-bit floats that turns their bits is no statement about float64."""
    right = rule(
        lambda x: -x, lambda x: (x.view(torch.int16) ^ -32768).view(x.dtype), {"x": "..."}, Level.BIT_EXACT,
        dtypes=("bfloat16",),
    )  # fmt: skip
    assert prove_rule(right, "bfloat16", Prover()).level in (Level.BIT_EXACT, Level.UNKNOWN)


def test_casts_of_a_narrow_rule_lose_nothing() -> None:
    right = rule(
        lambda x: x.float().exp().to(x.dtype), lambda x: x.double().exp().float().to(x.dtype), {"x": "..."},
        Level.EXACT_REAL, dtypes=("bfloat16", "float16"), assumes=("finite",),
    )  # fmt: skip
    assert prove_rule(right, "bfloat16", Prover()).level is not Level.REFUTED


def test_a_value_that_only_rounding_gives_refutes_no_proof() -> None:
    """Of the fuzzer: a hyperbolic tangent is 1 for no number, but for rounding; twice 3 is 6."""

    def refuted(side: Program, bound: float) -> bool:
        made = rule(
            lambda x: torch.where(side(x) > bound, 1.0, 0.0), lambda x: torch.where(side(x) >= bound, 1.0, 0.0),
            {"x": "..."}, Level.EXACT_REAL,
        )  # fmt: skip
        proof = RuleProof("r", "float32", Level.EXACT_REAL, Level.EXACT_REAL, "", "")
        return refutation(_Told(made), "float32", proof, 3.0, random.Random(1)) is not None

    assert not refuted(torch.tanh, 1.0) and not refuted(lambda x: torch.sigmoid(x) * 2 - 1, 1.0)
    assert refuted(lambda x: 2 * x, 6.0) and refuted(torch.cos, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        (lambda x: F.softmax(x, 0), lambda x: F.softmax(x - x.prod(0, keepdim=True), 0), [262.0, *[258.0] * 8]),
        (lambda x: torch.where(F.elu(x) + 3 > 2, x / 256, 0),
         lambda x: torch.where(torch.where(x > 0, x, torch.expm1(x)) + 3 >= 2, x / 256, 0), [-262.0] * 99),
    ],
)  # fmt: skip
def test_what_only_rounding_makes_refutes_no_proof(before: Program, after: Program, values: list[float]) -> None:
    """Small numbers that are lost beside large ones, and bounds that a function only comes near to."""
    made = rule(before, after, {"x": "n"}, Level.EXACT_REAL, dtypes=("float64",))
    given = {"x": torch.tensor(values, dtype=torch.float64)}
    proof = RuleProof("r", "float64", Level.EXACT_REAL, Level.EXACT_REAL, "", "")
    assert contradicted(Instance(made, given, {}), given, proof, False, random.Random(1)) is None



def test_what_raises_now_and_then_is_told() -> None:
    def after(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 7:
            raise RuntimeError("seven")
        return x.clone()

    proof = prove_rule(rule(lambda x: x.clone(), after, {"x": "n"}, Level.BIT_EXACT), "float32", Prover())
    assert "the replacement raises on " in proof.scope
