"""The model's terms: what they are evaluated to, what they assume, and their SMT-LIB text."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import z3
from obligations import obligation

from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt import concrete, ieee, smtlib
from fxmorph.prove.smt.scalar_model import Translation, models, simplest, translate
from fxmorph.prove.smt.scalars import Const, Obligation, Op, Slot, Var
from fxmorph.prove.smt.sorts import FLOATS, float_of, float_sort, float_value, python_value

VALUES = (0.0, -0.0, 1.0, -2.5, 0.1, 65504.0, 1e-7, 5e-324, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", VALUES)
def test_numerals_are_what_eager_rounds_to(value: float, dtype: torch.dtype) -> None:
    numeral = float_value(value, dtype)
    expected = float(torch.tensor(value, dtype=dtype))
    back = float_of(numeral)
    assert back is not None
    assert (math.isnan(back) and math.isnan(expected)) or (back, math.copysign(1, back)) == (
        expected,
        math.copysign(1, expected),
    )


def test_values_of_integers_are_signed_but_for_uint8() -> None:
    assert python_value(z3.BitVecVal(255, 8), torch.int8) == -1
    assert python_value(z3.BitVecVal(255, 8), torch.uint8) == 255


def unary(name: str, dtype: torch.dtype, **arguments: object) -> Op:
    given = {"self": Slot(0), **arguments}
    return Op(name, tuple(sorted(given.items())), dtype, (Var(0, dtype),))


def applied(node: Op, value: float) -> float:
    translation = Translation((node.operands[0].dtype,))
    term = z3.simplify(
        z3.substitute(translation.term(node), (translation.variables[0], float_value(value, node.operands[0].dtype)))
    )
    out = python_value(term, node.dtype)
    assert out is not None
    return float(out)


def test_corners_of_eager() -> None:
    relu = unary("relu", torch.float32)
    assert math.copysign(1, applied(relu, -0.0)) == -1 and math.isnan(applied(relu, math.nan))
    assert applied(unary("sign", torch.float32), math.nan) == 0
    assert applied(unary("pow", torch.float32, exponent=0), math.nan) == 1
    assert applied(unary("round", torch.float32), 2.5) == 2
    assert applied(unary("clamp", torch.float32, min=2.0, max=1.0), 0.0) == 1


def test_scalars_of_16_bits_are_rounded_by_sums_and_kept_by_products() -> None:
    dtype = torch.bfloat16
    x = torch.tensor([9.0], dtype=dtype)
    for name in ("add", "mul"):
        assert applied(unary(name, dtype, other=0.1), 9.0) == float(getattr(torch, name)(x, 0.1))
    assert float(x + 0.1) == float(x + torch.tensor([0.1], dtype=dtype))
    assert float(x * 0.1) != float(x * torch.tensor([0.1], dtype=dtype))


def test_float64_goes_to_16_bits_through_float32() -> None:
    value = 1.0 + 2.0**-11 + 2.0**-40  # above the tie that float32 rounds it to
    node = Op("cast", (("self", Slot(0)),), torch.float16, (Var(0, torch.float64),))
    assert applied(node, value) == float(torch.tensor([value], dtype=torch.float64).half()) == 1.0


def test_ties_of_zeros_are_free_choices() -> None:
    node = Op("maximum", (("other", Slot(1)), ("self", Slot(0))), torch.float32, (Var(0, torch.float32),) * 2)
    translation = Translation((torch.float32,))
    translation.term(node)
    assert translation.context.choices == 0  # of a value with itself there is no choice
    node = Op("maximum", node.arguments, torch.float32, (Var(0, torch.float32), Var(1, torch.float32)))
    translation = Translation((torch.float32, torch.float32))
    translation.term(node)
    assert translation.context.choices == 1
    assert translation.context.assumptions == {"max-tie-free-choice"}


def test_what_is_not_modelled_is_uninterpreted_and_says_so() -> None:
    claim = translate(obligation(lambda x: x.erf() + 0, lambda x: x.erf(), torch.float32))
    assert claim.context.assumptions == {"UF:erf"} and not claim.functions_apart
    claim = translate(obligation(lambda x: x.erf(), lambda x: 1 - x.erfc(), torch.float32))
    assert claim.functions_apart


def test_sums_of_two_sides_are_not_the_same_function() -> None:
    row = Op("sum", (), torch.float32, (Var(0, torch.float32), Var(1, torch.float32)))
    claim = translate(Obligation(row, row, (torch.float32, torch.float32), (True, True)))
    assert not claim.left.eq(claim.right)  # their order is not told
    told = Op("sum", (("layout", 1),), torch.float32, row.operands)
    claim = translate(Obligation(told, told, (torch.float32, torch.float32), (True, True)))
    assert claim.left.eq(claim.right)


def test_downgraded_operators_are_uninterpreted_at_bit_level_only() -> None:
    claim = obligation(lambda x: x + 0, lambda x: x.clone(), torch.float32)
    refused = translate(claim, False, lambda name, dtype: (name, dtype) == ("add", torch.float32))
    assert refused.context.assumptions == {"UF:add"}
    assert not translate(claim, True, lambda name, dtype: True).context.assumptions


def test_infinite_constants_are_no_real_numbers() -> None:
    node = Const(math.inf, torch.float32)
    with pytest.raises(NotModelled):
        Translation((), real=True).term(node)


def test_dtypes_without_a_sort_are_refused() -> None:
    with pytest.raises(NotModelled):
        Translation((torch.complex64,))


def test_models_says_what_is_modelled() -> None:
    assert models("add", torch.float32) and models("bitwise_xor", torch.int8) and models("cast", torch.bool)
    assert not models("erf", torch.float32)


def test_simple_fractions_of_rounded_constants() -> None:
    assert str(simplest(1 / 3, torch.float64)) == "1/3" and str(simplest(0.1, torch.float64)) == "1/10"
    third = float(torch.tensor(1 / 3, dtype=torch.float32))
    assert str(simplest(third, torch.float32)) == "1/3"
    assert simplest(math.pi, torch.float64) == math.pi


# -- rewritten arithmetic --------------------------------------------------------------

A, B, C = (z3.Const(n, z3.FPSort(3, 4)) for n in "abc")
TWO, HALF, MINUS = (z3.simplify(z3.fpToFP(z3.RNE(), z3.FPVal(v, z3.Float64()), A.sort())) for v in (2.0, 0.5, -1.5))


@pytest.mark.parametrize(
    ("made", "standard"),
    [
        (ieee.sub(A, B), z3.fpSub(z3.RNE(), A, B)),
        (ieee.mul(ieee.negated(A), B), z3.fpMul(z3.RNE(), z3.fpNeg(A), B)),
        (ieee.mul(A, MINUS), z3.fpMul(z3.RNE(), A, MINUS)),
        (ieee.mul(A, TWO), z3.fpMul(z3.RNE(), A, TWO)),
        (ieee.div(A, TWO), z3.fpDiv(z3.RNE(), A, TWO)),
        (ieee.div(A, HALF), z3.fpDiv(z3.RNE(), A, HALF)),
        (ieee.div(ieee.negated(A), ieee.negated(B)), z3.fpDiv(z3.RNE(), z3.fpNeg(A), z3.fpNeg(B))),
        (ieee.to(ieee.negated(A), z3.FPSort(3, 3)), z3.fpToFP(z3.RNE(), z3.fpNeg(A), z3.FPSort(3, 3))),
        (ieee.to(ieee.to(A, z3.FPSort(5, 6)), A.sort()), A),
        (ieee.fma(A, B, C), z3.fpFMA(z3.RNE(), A, B, C)),
    ],
)  # fmt: skip
def test_rewritten_arithmetic_is_the_standard_one(made: z3.FPRef, standard: z3.FPRef) -> None:
    solver = z3.Solver()
    solver.add(made != standard)
    assert solver.check() == z3.unsat


@pytest.mark.parametrize("other", [ieee.add(ieee.negated(A), ieee.negated(B)), ieee.mul(A, B), ieee.sub(B, A)])
def test_equality_modulo_zero_sign_is_what_it_says(other: z3.FPRef) -> None:
    first = ieee.negated(ieee.add(A, B))
    plain = z3.Or(first == other, z3.And(z3.fpIsZero(first), z3.fpIsZero(other)))
    solver = z3.Solver()
    solver.add(ieee.equal_modulo_zero_sign(first, other) != plain)
    assert solver.check() == z3.unsat


# -- evaluation and text ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_calculator_computes_what_z3_computes(dtype: torch.dtype) -> None:
    sort = float_sort(dtype)
    x, y, z = z3.Consts("x y z", sort)
    rne = z3.RNE()
    terms = [
        z3.fpAdd(rne, x, y), z3.fpMul(rne, x, y), z3.fpDiv(rne, x, y), z3.fpSqrt(rne, x), z3.fpFMA(rne, x, y, z),
        z3.fpRoundToIntegral(z3.RTN(), x), z3.fpToFP(rne, x, z3.Float16()), z3.fpToSBV(z3.RTZ(), y, z3.BitVecSort(16)),
        z3.If(z3.fpLT(x, y), x, z3.fpNeg(z)), x == y, z3.fpEQ(x, y),
    ]  # fmt: skip
    rng = np.random.default_rng(3)
    pool = [0.0, -0.0, 1.0, -1.5, 3.0, 0.1, 7.25, 1e-7, 100.0, 3e-40]
    columns = {n: [float(torch.tensor(v, dtype=dtype)) for v in rng.choice(pool, 12)] for n in "xyz"}
    for term in terms:
        got = concrete.evaluate(term, {n: np.array(c) for n, c in columns.items()}, 12)
        for i in range(12):
            pairs = [(v, float_value(columns[str(v)][i], dtype)) for v in (x, y, z)]
            expected = z3.simplify(z3.substitute(term, *pairs))
            value = python_value(expected, torch.uint8 if z3.is_bv(expected) else dtype)
            same = value == got[i] or (value != value and got[i] != got[i])
            assert same, (term, pairs, expected, got[i])


def test_text_is_read_back_as_the_same_query() -> None:
    claim = translate(obligation(lambda x, y: x / y + 0.1, lambda x, y: x.relu() - y, torch.float16, torch.float16))
    goal = claim.left != claim.right
    (again,) = z3.parse_smt2_string(smtlib.text([goal]))
    solver = z3.Solver()
    solver.add(again != goal)
    assert solver.check() == z3.unsat
